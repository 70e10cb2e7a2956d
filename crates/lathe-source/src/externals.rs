//! Calls of external functions: a descriptor for each argument, and the runtime's table.

use crate::emit::{Emitter, Place, Result, ill_formed, lift, not_in_registers};
use crate::writer::bare;
use lathe_diagnostics::Places;
use lathe_engine::dtype_of;
use lathe_ir::build::{index, mul};
use lathe_ir::stmt::Arg;
use lathe_ir::{Name, Type};
use lathe_lower::externals::{Passed, arguments};

impl Emitter<'_> {
    pub fn external(&mut self, name: &Name, args: &[Arg], places: &Places) -> Result<()> {
        let known = self.table.external(name);
        let (place, number) =
            known.ok_or_else(|| ill_formed(format!("the external function `{name}` has no number")))?;
        let decl = |id| self.bufs.get(&id).map(|b| b.decl.clone());
        let passed = arguments(self.module, name, args, &decl, places).map_err(lift)?;
        self.open("{");
        self.begin(&[]);
        let mut descriptors = Vec::new();
        for p in passed {
            descriptors.push(self.descriptor(p)?);
        }
        let rt = self.runtime();
        let table = self.names.fresh("given");
        // No array of C is empty.
        let all = if descriptors.is_empty() { "{0}".to_string() } else { descriptors.join(", ") };
        self.line(format!("/* {} */", name.replace("*/", "* /")));
        self.line(format!("const lathe_array {table}[] = {{{all}}};"));
        let fails = format!("!{rt}->externals || {rt}->externals[{place}]({rt}, {table}) != LATHE_OK");
        self.leave_if(&fails, &number.to_string())?;
        self.close("}");
        Ok(())
    }

    /// The initializer of an argument's descriptor.
    fn descriptor(&mut self, p: Passed) -> Result<String> {
        match p {
            Passed::Value { value, ty } => {
                let text = self.uniform(&value)?;
                let (t, name) = (self.element_type(&ty)?, self.names.fresh("value"));
                self.line(format!("{t} {name} = {};", bare(&text)));
                Ok(initializer(&format!("&{name}"), "0", "0", &ty, 0))
            }
            Passed::Elements { buffer, elem, first, steps, extents } => {
                let b = self.buf(buffer)?;
                let at = self.element(&b, &first)?;
                let mut strides = Vec::new();
                match &b.storage {
                    Place::Param { strides: names, .. } => {
                        for (s, step) in names.iter().zip(&steps) {
                            let s = self.stride(&b, s);
                            strides.push(if *step == 1 { s } else { format!("{s} * {step}") });
                        }
                    }
                    Place::Local { strides: all } => {
                        for (s, step) in all.iter().zip(&steps) {
                            let text = self.uniform(&mul(s.clone(), index(*step)))?;
                            strides.push(bare(&text).to_string());
                        }
                    }
                    Place::Registers { .. } => return Err(not_in_registers()),
                }
                let mut shape = Vec::new();
                for x in &extents {
                    shape.push(bare(&self.uniform(x)?).to_string());
                }
                let rank = shape.len();
                let (shape, strides) = (self.numbers("shape", &shape), self.numbers("strides", &strides));
                Ok(initializer(&format!("&{at}"), &shape, &strides, &elem, rank))
            }
        }
    }

    fn numbers(&mut self, hint: &str, all: &[String]) -> String {
        if all.is_empty() {
            return "0".to_string();
        }
        let name = self.names.fresh(hint);
        self.line(format!("const int64_t {name}[] = {{{}}};", all.join(", ")));
        name
    }
}

fn initializer(data: &str, shape: &str, strides: &str, elem: &Type, rank: usize) -> String {
    format!("{{(void *){data}, {shape}, {strides}, {}, {rank}, {}}}", dtype_of(elem), elem.bytes())
}
