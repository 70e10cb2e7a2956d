//! The state of emission: what is in scope, in which C function it lives, and how the functions
//! that `cpu` loops become get at it.

use crate::codes;
use crate::device::language::Language;
use crate::helpers::{Helpers, memory_type};
use crate::names::{Names, sanitize};
use crate::writer::Writer;
use lathe_diagnostics::{Code, Diagnostic, Places};
use lathe_engine::CheckTable;
use lathe_ir::lower::Unsupported;
use lathe_ir::{Access, BufId, Buffer, Expr, Function, Module, Scalar, Type, VarId};
use lathe_lower::addresses;
use lathe_poly::Ranges;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

pub type Result<T> = std::result::Result<T, Diagnostic>;

/// A variable in scope.
#[derive(Clone, Debug)]
pub struct Var {
    pub name: String,
    pub ty: Scalar,
    /// Depth of the C function it is a local of.
    pub frame: usize,
    /// It has a value per lane of the vector loop around.
    pub lanes: bool,
}

/// A buffer in scope.
#[derive(Clone)]
pub struct Buf {
    pub decl: Arc<Buffer>,
    pub name: String,
    pub frame: usize,
    pub storage: Place,
}

#[derive(Clone)]
pub enum Place {
    /// A parameter: a pointer, and one stride per dimension that is the name of a variable or `1`.
    Param { strides: Vec<String>, restrict: bool, constant: bool },
    /// A local array or scratch memory with strides in tree arithmetic.
    Local { strides: Vec<Expr> },
    /// Vectors of `width` elements, each a variable of its own; `strides` as of a local array.
    Registers { strides: Vec<Expr>, width: u32, names: Arc<[String]> },
}

/// A C function being written.
pub struct Frame {
    pub out: Writer,
    /// What it takes from the functions around it: name to declaration (`const int64_t N`).
    pub captures: BTreeMap<String, String>,
    /// Scratch memory to give back on every way out.
    pub scratch: Vec<String>,
    /// Values of shared expressions, one layer per conditional block.
    pub memo: Vec<HashMap<Expr, Val>>,
    /// How often each expression of the statement being written is used.
    pub uses: HashMap<Expr, u32>,
}

/// C text of a value.
#[derive(Clone, Debug)]
pub struct Val {
    pub text: String,
    /// One value per lane.
    pub lanes: bool,
}

impl Val {
    pub fn scalar(text: impl Into<String>) -> Val {
        Val { text: text.into(), lanes: false }
    }
}

/// The vector loop around the code being written.
#[derive(Clone, Debug)]
pub struct Lanes {
    pub width: u32,
    /// How many lanes take part, as C text; `None`: all.
    pub active: Option<String>,
    /// The loop's variable.
    pub binder: VarId,
    /// A variable that holds its value in the first lane.
    pub base: VarId,
    /// The loop's lower bound.
    pub lo: Expr,
}

pub struct Emitter<'a> {
    pub module: &'a Module,
    pub function: &'a Function,
    pub table: &'a CheckTable,
    pub helpers: Helpers,
    pub names: Names,
    /// Type definitions of aggregates, in the order of definition.
    pub typedefs: Vec<(Type, String, String)>,
    /// Finished functions that `cpu` loops became.
    pub functions: Vec<String>,
    pub frames: Vec<Frame>,
    pub vars: HashMap<VarId, Var>,
    pub bufs: HashMap<BufId, Buf>,
    pub lanes: Option<Lanes>,
    /// What is known of the variables in scope.
    pub ranges: Ranges,
    /// Above every number in the function.
    pub next_id: u32,
    /// The kernel's C name.
    pub base: String,
    /// Writes vector loops as plain loops over their lanes.
    pub lane_loops_only: bool,
    /// Arms of `select` around what is written.
    pub lazy: u32,
    /// The code is a kernel of a device.
    pub device: Option<Device>,
    /// The blocks of the kernel take turns.
    pub turns: Option<Turns>,
    /// Stores that the copy units of the device do.
    pub copies: lathe_device::Copies,
}

/// Updates of a kernel in the order of its blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turns {
    /// C text of the block's number.
    pub block: String,
    /// Words of 64 bits per block that those before use.
    pub words: u64,
}

/// What is different in a kernel of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device {
    pub language: Language,
    /// Threads wait for one another, so that none may leave before the others.
    pub barriers: bool,
    /// The number of the thread in its block, and how many there are.
    pub thread: VarId,
    pub threads: i64,
    /// The number of the block in its cluster.
    pub rank: Option<VarId>,
}

/// A construct that the engine does not declare, met all the same.
pub fn unsupported(what: impl AsRef<str>, places: &Places) -> Diagnostic {
    let text = format!("the engine `c` met {}, which it does not take", what.as_ref());
    Diagnostic::error(lathe_engine::codes::DEFECT, text).at_places(places, "here")
}

pub fn ill_formed(what: impl AsRef<str>) -> Diagnostic {
    Diagnostic::error(codes::ILL_FORMED, format!("the tree is ill-formed: {}", what.as_ref()))
        .note("the verifier says more")
}

/// Never leaves this crate: asks the buffer to be written as an array.
pub const NOT_IN_REGISTERS: Code = Code("not in registers");

/// Never leaves this crate: asks the vector loop around to be written lane by lane.
pub const FALLBACK: Code = Code("lane by lane");

pub fn fallback() -> Diagnostic {
    Diagnostic::error(FALLBACK, "this has no vector form")
}

pub fn not_in_registers() -> Diagnostic {
    Diagnostic::error(NOT_IN_REGISTERS, "this buffer is not touched by whole vectors at constant places only")
}

pub fn lift(u: Unsupported) -> Diagnostic {
    let d = unsupported(&u.construct, &u.places);
    match u.help {
        Some(h) => d.help(h),
        None => d,
    }
}

impl<'a> Emitter<'a> {
    pub fn new(module: &'a Module, function: &'a Function, table: &'a CheckTable) -> Emitter<'a> {
        let mut names = Names::default();
        let base = names.fresh_symbol(&function.name);
        Emitter {
            module,
            function,
            table,
            helpers: Helpers::default(),
            names,
            typedefs: Vec::new(),
            functions: Vec::new(),
            frames: Vec::new(),
            vars: HashMap::new(),
            bufs: HashMap::new(),
            lanes: None,
            ranges: Ranges::of_function(function),
            next_id: function.next_id,
            base,
            lane_loops_only: false,
            lazy: 0,
            device: None,
            turns: None,
            copies: lathe_device::Copies::default(),
        }
    }

    /// The function being written.
    pub fn frame(&mut self) -> &mut Frame {
        self.frames.last_mut().expect("emission happens inside a function")
    }

    pub fn push_frame(&mut self, depth: usize) {
        self.frames.push(Frame {
            out: Writer::new(depth),
            captures: BTreeMap::new(),
            scratch: Vec::new(),
            memo: vec![HashMap::new()],
            uses: HashMap::new(),
        });
    }

    pub fn line(&mut self, text: impl AsRef<str>) {
        self.frame().out.line(text);
    }

    pub fn open(&mut self, text: impl AsRef<str>) {
        self.frame().out.open(text);
        self.frame().memo.push(HashMap::new());
    }

    pub fn close(&mut self, text: impl AsRef<str>) {
        let again = text.as_ref().ends_with('{');
        let f = self.frame();
        f.memo.pop();
        if again {
            f.memo.push(HashMap::new());
            f.out.close(text.as_ref());
            // `} else {` closes one level and opens another.
            f.out.deepen();
        } else {
            f.out.close(text);
        }
    }

    /// Tries to write something; if that fails with the code, all is as before, and the answer is `false`.
    pub fn attempt(&mut self, code: Code, write: impl FnOnce(&mut Self) -> Result<()>) -> Result<bool> {
        let (frames, functions) = (self.frames.len(), self.functions.len());
        let helpers = std::mem::take(&mut self.helpers);
        let lanes = self.lanes.clone();
        let f = self.frame();
        let (layers, scratch) = (f.memo.len(), f.scratch.len());
        let fresh = Writer::new(f.out.depth());
        let before = std::mem::replace(&mut f.out, fresh);
        let tried = write(self);
        self.frames.truncate(frames);
        let made = std::mem::replace(&mut self.helpers, helpers);
        let written = std::mem::replace(&mut self.frame().out, before);
        match tried {
            Ok(()) => {
                self.helpers.join(made);
                self.frame().out.append(written);
                Ok(true)
            }
            Err(d) if d.code == code => {
                self.functions.truncate(functions);
                self.lanes = lanes;
                let f = self.frame();
                f.scratch.truncate(scratch);
                f.memo.truncate(layers);
                f.memo.iter_mut().for_each(HashMap::clear);
                Ok(false)
            }
            Err(d) => Err(d),
        }
    }

    pub fn fresh_id(&mut self) -> u32 {
        self.next_id += 1;
        self.next_id - 1
    }

    /// Records that the current function uses a name of a function around it.
    pub fn capture(&mut self, frame: usize, name: &str, declaration: String) {
        for f in &mut self.frames[frame + 1..] {
            f.captures.entry(name.to_string()).or_insert_with(|| declaration.clone());
        }
    }

    /// A variable's text, captured if it lives further out.
    pub fn var(&mut self, id: VarId) -> Result<Val> {
        let v = self
            .vars
            .get(&id)
            .cloned()
            .ok_or_else(|| ill_formed(format!("variable %{} is not in scope", id.0)))?;
        if v.frame + 1 < self.frames.len() {
            self.capture(v.frame, &v.name, format!("const {} {}", memory_type(v.ty), v.name));
        }
        if self.lanes.as_ref().is_some_and(|l| l.binder == id) {
            return self.lane_variable(&v.name, v.ty);
        }
        Ok(Val { text: v.name, lanes: v.lanes })
    }

    /// A buffer, its pointer and strides captured if it lives further out.
    pub fn buf(&mut self, id: BufId) -> Result<Buf> {
        let b = self
            .bufs
            .get(&id)
            .cloned()
            .ok_or_else(|| ill_formed(format!("buffer #{} is not in scope", id.0)))?;
        if b.frame + 1 < self.frames.len() {
            let elem = self.element_type(&b.decl.elem)?;
            let declaration = match &b.storage {
                Place::Param { restrict, constant, .. } => format!(
                    "{}{elem} *{}{}",
                    if *constant { "const " } else { "" },
                    if *restrict { "restrict " } else { "" },
                    b.name
                ),
                Place::Local { .. } => format!("{elem} *{}", b.name),
                Place::Registers { .. } => return Err(not_in_registers()),
            };
            self.capture(b.frame, &b.name, declaration);
        }
        Ok(b)
    }

    /// The buffer of an access, which after lowering names one.
    pub fn buf_of(&mut self, a: &Access) -> Result<Buf> {
        let id = addresses::buffer(a).ok_or_else(|| ill_formed("a view that is gone after lowering"))?;
        self.buf(id)
    }

    /// A stride of a parameter, captured if needed.
    pub fn stride(&mut self, b: &Buf, name: &str) -> String {
        if name != "1" && b.frame + 1 < self.frames.len() {
            self.capture(b.frame, name, format!("const int64_t {name}"));
        }
        name.to_string()
    }

    /// The runtime table, captured like any other name.
    pub fn runtime(&mut self) -> &'static str {
        self.capture(0, "rt", "const lathe_runtime *rt".to_string());
        "rt"
    }

    /// Leaves the function with a status, scratch memory given back.
    pub fn leave(&mut self, status: &str) -> Result<()> {
        let scratch = self.frame().scratch.clone();
        for s in scratch.iter().rev() {
            let rt = self.runtime();
            self.line(format!("{rt}->free({rt}->ctx, {s});"));
        }
        self.line(format!("return {status};"));
        Ok(())
    }

    /// Leaves the function with a status if a condition holds.
    pub fn leave_if(&mut self, condition: &str, status: &str) -> Result<()> {
        if let Some(d) = self.device {
            // Where threads wait for one another, all go on; the host learns that the call has failed.
            let after = if d.barriers { "" } else { " return;" };
            self.line(format!("if ({condition}) {{ lathe_fail(lathe_status, {status});{after} }}"));
            return Ok(());
        }
        if self.frame().scratch.is_empty() {
            self.line(format!("if ({condition}) return {status};"));
            return Ok(());
        }
        self.open(format!("if ({condition}) {{"));
        self.leave(status)?;
        self.close("}");
        Ok(())
    }

    /// The C type of elements in memory; defines the structs of aggregates.
    pub fn element_type(&mut self, ty: &Type) -> Result<String> {
        match ty.scalar() {
            Some(s) => Ok(memory_type(s).to_string()),
            None => self.aggregate_type(ty),
        }
    }

    fn aggregate_type(&mut self, ty: &Type) -> Result<String> {
        if let Some((_, name, _)) = self.typedefs.iter().find(|(t, ..)| t == ty) {
            return Ok(name.clone());
        }
        let (hint, members) = match ty {
            Type::Array(t, n) => {
                let elem = self.element_type(t)?;
                (format!("array_{elem}_{n}"), format!("{elem} at[{n}];"))
            }
            Type::Vector(s, n) => {
                let align = ty.align();
                let elem = memory_type(*s);
                let text = format!("{elem} at[{n}] __attribute__((aligned({align})));");
                (format!("vector_{elem}_{n}"), text)
            }
            Type::Struct(s) => {
                let mut text = String::new();
                for (name, t) in &s.fields {
                    let elem = self.element_type(t)?;
                    text.push_str(&format!("{elem} {}; ", member(name)));
                }
                (s.name.to_string(), text)
            }
            Type::Tuple(ts) => {
                let (mut text, mut hint) = (String::new(), "tuple".to_string());
                for (i, t) in ts.iter().enumerate() {
                    let elem = self.element_type(t)?;
                    text.push_str(&format!("{elem} x{i}; "));
                    hint.push_str(&format!("_{t}"));
                }
                (hint, text)
            }
            Type::Scalar(s) => (s.to_string(), String::new()),
        };
        if ty.fields().is_empty() {
            return Err(ill_formed(format!("the type `{ty}` has no components")));
        }
        let name = self.names.fresh(&hint);
        let text = format!("typedef struct {{ {} }} {name};", members.trim_end());
        self.typedefs.push((ty.clone(), name.clone(), text));
        Ok(name)
    }

    /// The C text that selects component `i` of an aggregate.
    pub fn component(ty: &Type, i: u32) -> String {
        match ty {
            Type::Array(..) | Type::Vector(..) => format!(".at[{i}]"),
            Type::Struct(s) => {
                s.fields.get(i as usize).map_or_else(String::new, |(n, _)| format!(".{}", member(n)))
            }
            _ => format!(".x{i}"),
        }
    }
}

/// A struct's member: never a keyword, since it ends in `_` where it might be one.
fn member(name: &str) -> String {
    let base = sanitize(name);
    let mut check = Names::default();
    if check.fresh(name) == base { base } else { format!("{base}_") }
}
