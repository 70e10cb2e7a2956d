# The two commands are `make demo` and `make test`; both install what is missing first.
SHELL := /bin/bash
.PHONY: demo lint test test-long test-python test-oldest test-newest test-torch test-types setup install wheel wheel-aarch64 doc bench gradbench derivatives device-bundle fuzz races clean

setup:
	@bash scripts/setup.sh

demo: setup
	cargo run --release --quiet -p lathe --example demo

# What is said about the code without running it: form, warnings, documentation, and what it depends on.
lint: setup
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --quiet -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --quiet
	@bash scripts/deny.sh

# What is said by running it; `.ci/run` runs both. `make lint` builds examples, which are not run: each links LLVM.
# The wheel is built beside them: most of that is one crate after the other, on one core.
test: setup
	@mkdir -p target; bash scripts/wheel.sh >target/wheel.log 2>&1 & wheel=$$!; \
	  cargo test --workspace --tests --quiet && cargo test --workspace --doc --quiet; tests=$$?; \
	  wait $$wheel || { cat target/wheel.log >&2; exit 1; }; exit $$tests
	@bash scripts/test_python.sh

test-long: setup
	LATHE_CASES=100000 cargo test --release --workspace --quiet
	@LATHE_CASES=5000 bash scripts/test_python.sh

# The Python package from its wheel, in a fresh virtual environment.
test-python: setup
	@bash scripts/test_python.sh

# With the oldest packages that are supported, and with the newest that there are: `LATHE_PYTHON=python3.10 make test-oldest`,
# `LATHE_PYTHON=python3.13 make test-newest`.
test-oldest: setup
	@LATHE_VERSIONS=oldest bash scripts/test_python.sh

test-newest: setup
	@LATHE_VERSIONS=newest bash scripts/test_python.sh

# The operators of PyTorch, which is too large for every run.
test-torch: setup
	@LATHE_TORCH=1 bash scripts/test_python.sh -k torch

# User code under mypy --strict and pyright.
test-types: setup
	@LATHE_PYRIGHT=1 bash scripts/test_python.sh test_types.py test_pyright.py

# One file for pip, with LLVM inside.
wheel: setup
	@bash scripts/wheel.sh

# The same for AArch64, made on x86-64; `scripts/wheel_contents.py` checks what is in it.
wheel-aarch64: setup
	@bash scripts/wheel_aarch64.sh

install: setup
	cargo install --path crates/lathe-cli --locked

doc: setup
	cargo doc --workspace --no-deps

bench: setup
	cargo run --release --quiet -p lathe-cli -- doctor
	cargo run --release --quiet -p lathe --example overheads
	@bash benches/run.sh

# Lathe and JAX on GradBench's evals; `python3` is one with the Python package and JAX.
gradbench:
	taskset -c 0 python3 benches/gradbench/table.py

# Gradients beside what they are gradients of, on one thread and on all; docs/derivatives-results.md.
derivatives:
	python3 benches/derivative_rows.py

# Cubins and their launches for benches/device/rows.py, which needs nothing else of Lathe.
device-bundle: setup
	@bash scripts/device_bundle.sh

fuzz: setup
	@bash scripts/fuzz.sh

# The runtime of devices under ThreadSanitizer.
races: setup
	@bash scripts/races.sh

clean:
	cargo clean
