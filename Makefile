# The two commands are `make demo` and `make test`; both install what is missing first.
SHELL := /bin/bash
.PHONY: demo test test-long setup install doc bench fuzz clean

setup:
	@bash scripts/setup.sh

demo: setup
	cargo run --release --quiet -p lathe --example demo

test: setup
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --quiet -- -D warnings
	cargo test --workspace --quiet
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --quiet

test-long: setup
	LATHE_CASES=100000 cargo test --release --workspace --quiet

install: setup
	cargo install --path crates/lathe-cli --locked

doc: setup
	cargo doc --workspace --no-deps

bench: setup
	cargo run --release --quiet -p lathe-cli -- doctor
	cargo run --release --quiet -p lathe --example overheads
	@bash benches/run.sh

fuzz: setup
	@bash scripts/fuzz.sh

clean:
	cargo clean
