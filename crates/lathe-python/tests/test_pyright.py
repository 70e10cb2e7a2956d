"""The second type checker on a program of a user: run by ``make test-types``, since it comes with a Node of its own."""

import subprocess
import sys

from test_types import STRICT


def test_pyright_has_nothing_to_say(tmp_path):
    (tmp_path / "user.py").write_text(STRICT)
    done = subprocess.run([sys.executable, "-m", "pyright", "--pythonpath", sys.executable, str(tmp_path / "user.py")],
                          capture_output=True, text=True)
    assert "0 errors" in done.stdout, done.stdout + done.stderr
