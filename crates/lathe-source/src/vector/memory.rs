//! Lanes in memory: contiguous, strided, gathered, masked, non-temporal.

use super::*;

impl Emitter<'_> {
    /// Whether any subscript differs between lanes.
    pub fn varies(&self, indices: &[Expr]) -> bool {
        indices.iter().any(|i| vars_of(i).iter().any(|v| self.vars.get(v).is_some_and(|v| v.lanes)))
    }

    /// How far the element moves from lane to lane, if that is a constant number of elements.
    pub fn step(&mut self, b: &Buf, indices: &[Expr]) -> Result<Option<i64>> {
        let Some(binder) = self.lanes.as_ref().map(|l| l.binder) else { return Ok(None) };
        let strides: Vec<Option<i64>> = match &b.storage {
            Place::Param { strides, .. } => strides.iter().map(|s| (s == "1").then_some(1)).collect(),
            Place::Local { strides } | Place::Registers { strides, .. } => {
                strides.iter().map(Expr::as_int).collect()
            }
        };
        let mut total = 0i64;
        for (i, s) in indices.iter().zip(strides) {
            if !self.varies(std::slice::from_ref(i)) {
                continue;
            }
            let Some(s) = s else { return Ok(None) };
            for (atom, factor) in &Linear::of(i).terms {
                if atom.as_var() == Some(binder) {
                    total = total.saturating_add(factor.saturating_mul(s));
                } else if self.varies(std::slice::from_ref(atom)) {
                    return Ok(None);
                }
            }
        }
        Ok(Some(total))
    }

    /// The address of the first lane's element.
    pub(super) fn first_lane(&mut self, b: &Buf, indices: &[Expr]) -> Result<String> {
        let Some(l) = self.lanes.clone() else { return Err(ill_formed("lanes outside of a vector loop")) };
        // A constant folds away; anything else has a name.
        let first = match l.lo.as_int() {
            Some(_) => l.lo.clone(),
            None => var_id(l.base, l.lo.ty().scalar().unwrap_or(Scalar::Index)),
        };
        let map = HashMap::from([(l.binder, first)]);
        let at: Vec<Expr> = indices.iter().map(|i| substitute(i, &map)).collect();
        let offset = self.offset(b, &at)?;
        Ok(format!("&{}[{}]", b.name, bare(&offset)))
    }

    /// The offset of every lane's element, in elements.
    pub(super) fn lane_offsets(&mut self, b: &Buf, indices: &[Expr]) -> Result<String> {
        let v = match &b.storage {
            Place::Param { strides, .. } => {
                let mut sum = Val::scalar("0");
                for (i, s) in indices.iter().zip(strides) {
                    let term = self.expr(i)?;
                    let s = Val::scalar(self.stride(b, s));
                    let term = if s.text == "1" {
                        term
                    } else if term.lanes {
                        self.lanes_binary(BinOp::Mul, Scalar::Index, &term, &s, None)?
                    } else {
                        Val::scalar(format!("({} * {})", term.text, s.text))
                    };
                    sum = match (sum.text.as_str(), sum.lanes || term.lanes) {
                        ("0", _) => term,
                        (_, true) => self.lanes_binary(BinOp::Add, Scalar::Index, &sum, &term, None)?,
                        _ => Val::scalar(format!("({} + {})", sum.text, term.text)),
                    };
                }
                sum
            }
            Place::Local { strides } => {
                let terms = indices.iter().zip(strides);
                let sum = terms.fold(index(0), |sum, (i, s)| add(sum, mul(i.clone(), s.clone())));
                self.expr(&sum)?
            }
            Place::Registers { .. } => return Err(crate::emit::not_in_registers()),
        };
        Ok(self.widened(&v, Scalar::Index)?.text)
    }

    pub(super) fn memory_scalar(&self, ty: &Type) -> Result<Scalar> {
        match ty.scalar() {
            None | Some(Scalar::Bool) => Err(fallback()),
            Some(s) => Ok(s),
        }
    }

    pub fn lanes_load(&mut self, b: &Buf, indices: &[Expr], a: &Access) -> Result<Val> {
        if let Place::Registers { .. } = b.storage {
            return self.registers_load(b, indices);
        }
        let s = self.memory_scalar(&a.elem)?;
        let v = self.vector_type(s)?;
        let elem = memory_type(s);
        let active = self.active();
        let text = if self.step(b, indices)? == Some(1) {
            let at = self.first_lane(b, indices)?;
            match active {
                None => {
                    let f = format!("lathe_load_{}", short(&v));
                    self.helpers.other(
                        1,
                        format!(
                            "static inline {v} {f}(const {elem} *p) {{\n    return *(const {v}_u *)p;\n}}"
                        ),
                    );
                    format!("{f}({at})")
                }
                Some(n) => {
                    let f = format!("lathe_load_some_{}", short(&v));
                    let fast = self.masked_intrinsic(s, &format!("return ({v}){{load}};"))?;
                    self.helpers.other(
                        1,
                        format!(
                            "static inline {v} {f}(const {elem} *p, int64_t n) {{\n{}",
                            either(
                                &fast,
                                &format!(
                                    "    {v} r = {{0}};\n    __builtin_memcpy(&r, p, (uint64_t)n * sizeof *p);\n    return r;\n"
                                )
                            )
                        ),
                    );
                    format!("{f}({at}, {n})")
                }
            }
        } else {
            let offsets = self.lane_offsets(b, indices)?;
            let o = self.vector_type(Scalar::Index)?;
            let w = self.width()?;
            let f = format!("lathe_gather_{}", short(&v));
            self.helpers.other(
                1,
                format!(
                    "static inline {v} {f}(const {elem} *p, {o} at, int64_t n) {{\n    {v} r = {{0}};\n    \
                     for (int64_t l = 0; l < n; l++) r[l] = p[at[l]];\n    return r;\n}}"
                ),
            );
            format!("{f}({}, {}, {})", b.name, bare(&offsets), active.unwrap_or_else(|| w.to_string()))
        };
        Ok(Val { text, lanes: true })
    }

    pub fn lanes_store(
        &mut self,
        b: &Buf,
        indices: &[Expr],
        target: &Access,
        value: &Val,
        nontemporal: bool,
    ) -> Result<()> {
        if !self.varies(indices) {
            return Err(fallback());
        }
        let s = self.memory_scalar(&target.elem)?;
        let value = self.widened(value, s)?;
        if let Place::Registers { .. } = b.storage {
            return self.registers_store(b, indices, s, &value);
        }
        let v = self.vector_type(s)?;
        let elem = memory_type(s);
        let value = bare(&value.text).to_string();
        let active = self.active();
        let step = self.step(b, indices)?;
        if step == Some(0) {
            return Err(fallback());
        }
        if step != Some(1) {
            let offsets = self.lane_offsets(b, indices)?;
            let o = self.vector_type(Scalar::Index)?;
            let w = self.width()?;
            let f = format!("lathe_scatter_{}", short(&v));
            self.helpers.other(
                1,
                format!(
                    "static inline void {f}({elem} *p, {o} at, {v} x, int64_t n) {{\n    \
                     for (int64_t l = 0; l < n; l++) p[at[l]] = x[l];\n}}"
                ),
            );
            let n = active.unwrap_or_else(|| w.to_string());
            self.line(format!("{f}({}, {}, {value}, {n});", b.name, bare(&offsets)));
            return Ok(());
        }
        let at = self.first_lane(b, indices)?;
        match active {
            None if nontemporal => {
                let f = self.stream(s, &v)?;
                self.line(format!("{f}({at}, {value});"));
            }
            None => {
                let f = format!("lathe_store_{}", short(&v));
                self.helpers.other(
                    1,
                    format!("static inline void {f}({elem} *p, {v} x) {{\n    *({v}_u *)p = x;\n}}"),
                );
                self.line(format!("{f}({at}, {value});"));
            }
            Some(n) => {
                let f = format!("lathe_store_some_{}", short(&v));
                let fast = self.masked_intrinsic(s, "{store};")?;
                self.helpers.other(
                    1,
                    format!(
                        "static inline void {f}({elem} *p, {v} x, int64_t n) {{\n{}",
                        either(&fast, "    __builtin_memcpy(p, &x, (uint64_t)n * sizeof *p);\n")
                    ),
                );
                self.line(format!("{f}({at}, {value}, {n});"));
            }
        }
        Ok(())
    }

    /// Non-temporal stores, where the processor can and the address allows it.
    pub(super) fn stream(&mut self, s: Scalar, v: &str) -> Result<String> {
        let elem = memory_type(s);
        let f = format!("lathe_stream_{}", short(v));
        let bytes = s.bytes() * u64::from(self.width()?);
        let (macro_name, prefix, m) = match bytes {
            64 => ("__AVX512F__", "_mm512_stream_si512", "__m512i"),
            32 => ("__AVX2__", "_mm256_stream_si256", "__m256i"),
            16 => ("__SSE2__", "_mm_stream_si128", "__m128i"),
            _ => return Err(fallback()),
        };
        self.helpers.intrinsics();
        self.helpers.other(
            1,
            format!(
                "static inline void {f}({elem} *p, {v} x) {{\n#if defined({macro_name})\n    \
                 if (((uintptr_t)p & {}) == 0) {{\n        {prefix}(({m} *)p, ({m})x);\n        return;\n    }}\n#endif\n    \
                 *({v}_u *)p = x;\n}}",
                bytes - 1
            ),
        );
        self.helpers.other(
            1,
            "static inline void lathe_stream_end(void) {\n#if defined(__SSE2__)\n    _mm_sfence();\n#endif\n}".to_string(),
        );
        Ok(f)
    }

    /// Masked memory operations of AVX-512 for a body with `{load}` or `{store}`; empty where there is
    /// none for the type.
    pub(super) fn masked_intrinsic(&mut self, s: Scalar, body: &str) -> Result<String> {
        let w = self.width()?;
        let bytes = s.bytes() * u64::from(w);
        if bytes != 64 || s.bits() < 32 {
            return Ok(String::new());
        }
        self.helpers.intrinsics();
        let mask = format!("(__mmask{w})((1u << n) - 1)");
        let (kind, m) = if s.bits() == 64 { ("epi64", "__m512i") } else { ("epi32", "__m512i") };
        let text = body
            .replace("{load}", &format!("_mm512_maskz_loadu_{kind}({mask}, p)"))
            .replace("{store}", &format!("_mm512_mask_storeu_{kind}(p, {mask}, ({m})x)"));
        Ok(format!("    {text}\n"))
    }
}

/// A helper's body with a fast way for AVX-512, closing brace included.
fn either(fast: &str, plain: &str) -> String {
    if fast.is_empty() {
        format!("{plain}}}")
    } else {
        format!("#if defined(__AVX512F__)\n{fast}#else\n{plain}#endif\n}}")
    }
}
