//! One call of a kernel by everyone who can run it.

use lathe::ir::interp::{self, ArrayValue, Options};
use lathe::ir::{Function, Mode, Scalar, Type};
use lathe::{Array, Build, Built, Engine, How, Machine, Pool, Program, Schedule, compile, convert, schedule};

/// What a call gives: the numbers of every array that it may write, or the message of its failure.
pub type Outcome = Result<Vec<Vec<i64>>, String>;

/// An argument by name: numbers for an array of integers or a scalar.
pub type Argument<'a> = (&'a str, &'a [i64]);

pub struct Kernel {
    pub program: Program,
    pub schedule: Schedule,
}

impl Kernel {
    /// The kernel `k` of a text under a strategy of it, or `naive`.
    pub fn new(text: &str, strategy: &str) -> Result<Kernel, String> {
        let program = Program::from_text("index.lathe", text).map_err(|e| e.to_string())?;
        let kernel = program.kernel(Some("k")).map_err(|e| e.to_string())?;
        let how = How { strategy: Some(strategy.to_string()), ..How::default() };
        let schedule = schedule(&program, kernel, &how, &Machine::host()).map_err(|e| e.to_string())?;
        Ok(Kernel { program, schedule })
    }

    pub fn source(&self) -> &Function {
        self.program.kernel(Some("k")).expect("it was scheduled")
    }

    /// One value per parameter: those given, in the shapes that the sizes say; outputs are undefined.
    pub fn arguments(&self, sizes: &[(&str, i64)], given: &[Argument]) -> Vec<ArrayValue> {
        let f = self.source();
        let known = f.sizes.iter().map(|b| {
            let size = sizes.iter().find(|s| s.0 == &*b.name).unwrap_or_else(|| panic!("no size {}", b.name));
            (b.id, size.1)
        });
        let known = known.collect();
        let value = |p: &lathe::ir::Param| {
            let (ty, shape): (Type, Vec<usize>) = match &p.kind {
                lathe::ir::ParamKind::Scalar(b) => (b.ty.into(), Vec::new()),
                lathe::ir::ParamKind::Array(b) => {
                    let extent = |e| interp::evaluate(e, &known).expect("an extent") as usize;
                    (b.elem.clone(), b.extents.iter().map(extent).collect())
                }
            };
            if p.mode == Mode::Out {
                return ArrayValue::undefined(ty, &shape);
            }
            let numbers = given.iter().find(|g| g.0 == &**p.name()).map(|g| g.1);
            let numbers = numbers.unwrap_or_else(|| panic!("nothing for {}", p.name()));
            match ty.scalar() {
                Some(s) if s.is_int() => ArrayValue::from_i64(s, &shape, numbers),
                Some(Scalar::F32) => {
                    ArrayValue::from_f32(&shape, &numbers.iter().map(|n| *n as f32).collect::<Vec<_>>())
                }
                _ => panic!("{ty} is not a type of these tests"),
            }
        };
        f.params.iter().map(value).collect()
    }

    fn outputs(&self, after: &[ArrayValue]) -> Vec<Vec<i64>> {
        let written = self.source().params.iter().zip(after).filter(|(p, _)| p.mode != Mode::In);
        written.map(|(_, a)| a.to_i64_vec()).collect()
    }

    /// What a tree means.
    pub fn interpreted(&self, f: &Function, arguments: &[ArrayValue]) -> Outcome {
        let mut values = arguments.to_vec();
        let options = Options { max_steps: Some(1 << 20), ..Options::default() };
        match interp::run(&self.schedule.module, f, &mut values, &options) {
            Ok(_) => Ok(self.outputs(&values)),
            Err(e) => Err(format!("{}: {e}", e.diagnostic.code.0)),
        }
    }

    /// What machine code does.
    pub fn compiled(&self, engine: Engine, opt_level: u8, pool: &Pool, arguments: &[ArrayValue]) -> Outcome {
        let build = Build { engine, opt_level, ..Build::default() };
        let built = compile(&self.schedule, &build).map_err(|e| format!("cannot be compiled: {e}"))?;
        self.called(&built, pool, arguments)
    }

    /// What machine code does that was made before.
    pub fn called(&self, built: &Built, pool: &Pool, arguments: &[ArrayValue]) -> Outcome {
        let mut arrays: Vec<Array> =
            arguments.iter().map(|a| convert::from_value(a).expect("an array")).collect();
        built.call(pool, &mut arrays).map_err(|e| e.to_string())?;
        Ok(self.outputs(&convert::to_values(&arrays).expect("values")))
    }
}

/// Runs a kernel by everyone and panics where they disagree about values, or about whether the call fails.
pub fn agreed(text: &str, strategy: &str, sizes: &[(&str, i64)], given: &[Argument]) -> Outcome {
    let kernel = Kernel::new(text, strategy).unwrap_or_else(|e| panic!("{text}\n{e}"));
    let arguments = kernel.arguments(sizes, given);
    let want = kernel.interpreted(kernel.source(), &arguments);
    let pool = Pool::new(2).expect("threads");
    let tree = &kernel.schedule.versions[0].func;
    let others = [
        ("interpreter, checked", kernel.interpreted(&kernel.schedule.plain, &arguments)),
        ("interpreter, scheduled", kernel.interpreted(tree, &arguments)),
        ("llvm", kernel.compiled(Engine::LLVM, 2, &pool, &arguments)),
        ("c", kernel.compiled(Engine::C, 1, &pool, &arguments)),
    ];
    for (who, got) in others {
        let same = match (&want, &got) {
            (Ok(a), Ok(b)) => a == b,
            (Err(_), Err(_)) => true,
            _ => false,
        };
        assert!(same, "{who} {got:?}, but the interpreter {want:?} with {given:?} for\n{text}");
    }
    want
}

/// The value of an operator on two numbers without end, if it is one of 64 bits.
pub fn exact(op: &str, a: i128, b: i128) -> Option<i64> {
    let floor = |a: i128, b: i128| {
        let q = a.checked_div(b)?;
        Some(if a % b != 0 && (a < 0) != (b < 0) { q - 1 } else { q })
    };
    let by = b.rem_euclid(64) as u32;
    let v = match op {
        "a + b" => a + b,
        "a - b" => a - b,
        "a * b" => a * b,
        "a // b" => floor(a, b)?,
        "a % b" => a - b * floor(a, b)?,
        "tdiv(a, b)" => a.checked_div(b)?,
        "trem(a, b)" => a.checked_rem(b)?,
        "-a" => -a,
        "abs(a)" => a.abs(),
        "min(a, b)" => a.min(b),
        "max(a, b)" => a.max(b),
        "shl(a, b)" => a.checked_mul(1i128.checked_shl(by)?)?,
        "shr(a, b)" => a >> by,
        "a * a" => a * a,
        "4 * a" => 4 * a,
        "a - 5" => a - 5,
        "5 - a" => 5 - a,
        "a * -3" => a * -3,
        _ => panic!("no operator {op}"),
    };
    i64::try_from(v).ok()
}
