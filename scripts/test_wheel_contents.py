"""The check of wheels finds what it is to find: `python3 scripts/test_wheel_contents.py`. Needs a C compiler."""

import base64
import hashlib
import os
import shutil
import subprocess
import tempfile
import unittest
import zipfile

from wheel_contents import PACKAGE, faults

INIT = "void *PyInit__lathe(void) { return 0; }\n"


def library(folder, source=INIT, compiler="cc", flags=()):
    c, out = os.path.join(folder, "lathe.c"), os.path.join(folder, "lathe.so")
    with open(c, "w") as f:
        f.write(source)
    subprocess.run([compiler, "-shared", "-fPIC", c, "-o", out, *flags], check=True)
    with open(out, "rb") as f:
        return f.read()


def wheel(folder, code, arch="x86_64", change=None, tag=None):
    """A wheel with the package's files and this library; `change` edits what is in it after it was recorded."""
    tag = tag or f"cp310-abi3-manylinux_2_36_{arch}"
    files = {"lathe/_lathe.abi3.so": code, "lathe-0.dist-info/WHEEL": f"Wheel-Version: 1.0\nTag: {tag}\n".encode()}
    for n in os.listdir(PACKAGE):
        if n.endswith((".py", ".pyi")) or n == "py.typed":
            with open(os.path.join(PACKAGE, n), "rb") as f:
                files[f"lathe/{n}"] = f.read()
    rows = []
    for n, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
        rows.append(f"{n},sha256={digest},{len(data)}\n")
    files["lathe-0.dist-info/RECORD"] = "".join([*rows, "lathe-0.dist-info/RECORD,,\n"]).encode()
    if change:
        change(files)
    path = os.path.join(folder, f"lathe-0-cp310-abi3-manylinux_2_36_{arch}.whl")
    with zipfile.ZipFile(path, "w") as z:
        for n, data in files.items():
            z.writestr(n, data)
    return path


class Contents(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        machine = os.uname().machine
        self.arch = {"arm64": "aarch64"}.get(machine, machine)

    def found(self, code, **how):
        return faults(wheel(self.folder, code, self.arch, **how), self.arch)

    def test_what_is_right_is_taken(self):
        self.assertEqual(self.found(library(self.folder)), [])

    def test_a_library_for_another_machine(self):
        code = library(self.folder)
        other = "aarch64" if self.arch == "x86_64" else "x86_64"
        self.assertIn("not ", faults(wheel(self.folder, code, other), other)[0])
        if shutil.which("aarch64-linux-gnu-gcc"):
            code = library(self.folder, compiler="aarch64-linux-gnu-gcc")
            self.assertEqual(faults(wheel(self.folder, code, "aarch64"), "aarch64"), [])

    def test_what_the_library_lacks_or_needs(self):
        for word, source, flags in [
            ("export PyInit__lathe", "int other;\n", ()),
            ("libstdc++.so.6", INIT, ("-Wl,--no-as-needed", "-l:libstdc++.so.6")),
            ("LLVMShutdown", "void LLVMShutdown(void);\n" + INIT.replace("return", "LLVMShutdown(); return"), ()),
            ("thread-local", "__thread char much[1000] = {1};\n" + INIT.replace("0", "much"), ()),
        ]:
            with self.subTest(word):
                found = self.found(library(self.folder, source, flags=flags))
                self.assertEqual(len(found), 1, found)
                self.assertIn(word, found[0])

    def test_files_that_are_not_as_recorded(self):
        code = library(self.folder)
        init = "lathe/__init__.py"
        for number, word, change in [
            (2, "not what was recorded", lambda f: f.update({init: b"pass\n"})),
            (2, "missing", lambda f: f.pop(init)),
            (1, "not recorded", lambda f: f.update({"lathe/more.py": b""})),
            (2, "no lathe/_lathe", lambda f: f.pop("lathe/_lathe.abi3.so")),
            (2, "cannot be read", lambda f: f.update({"lathe/_lathe.abi3.so": code[:300]})),
        ]:
            with self.subTest(word):
                found = self.found(code, change=change)
                self.assertEqual(len(found), number, found)
                self.assertTrue(any(word in f for f in found), found)
        self.assertEqual(len(self.found(code, tag="py3-none-any")), 1)


if __name__ == "__main__":
    unittest.main()
