//! The statements around and in the place of a reduction whose iterations have results of their own.

use super::*;

/// Makes the three parts of the new statement.
pub struct Maker<'a> {
    pub job: &'a Job<'a>,
    pub r: &'a Reduction,
    pub around: &'a Around,
    pub parts: &'a [Arc<Buffer>],
    pub locals: &'a [Arc<Buffer>],
    pub region: &'a [Region],
    pub count: Expr,
    /// What says that a part has a first element, where the operator has no identity; of the part's number.
    pub exists: Option<(Binder, Expr)>,
}

impl Maker<'_> {
    /// One nest per array.
    pub fn init(&self, work: &mut Work, identity: &[Expr], labels: &mut Labels) -> Vec<Stmt> {
        let nests = self.locals.iter().zip(identity).map(|(local, value)| {
            let vars: Vec<Binder> = (0..local.extents.len())
                .map(|d| work.fresh(lathe_ir::names::dimension(&labels.init, d)))
                .collect();
            let position: Vec<Expr> = vars.iter().map(build::var).collect();
            let mut instance = self.around.instance();
            instance.extend(position.iter().cloned());
            let store = Stmt::new(
                StmtKind::Store(Store::new(
                    Label::new(&labels.init),
                    instance,
                    proved(local.id, &local.elem, position),
                    value.clone(),
                )),
                self.r.places.clone(),
            );
            let ends = std::iter::once(&self.count).chain(local.extents.iter().skip(1));
            let loops = vars.into_iter().zip(ends).map(|(v, e)| (v, build::index(0), e.clone()));
            nest(loops.collect(), store, &self.r.places)
        });
        nests.collect()
    }

    /// Which part an iteration combines into.
    pub fn own(&self, first: &Linear) -> Option<Expr> {
        let l = self.job.cursor.at(&self.job.inner).and_then(Stmt::as_loop)?;
        Some(bounds::normal(&build::var(&l.binder)).minus(first)?.to_expr())
    }

    /// The statement with the parts in the place of one of the arrays.
    pub fn redirect(&self, stmt: &Stmt, first: &Linear, n: usize) -> Stmt {
        let own = self.own(first);
        visit::map_named(stmt, &mut |a| {
            let mut indices = vec![own.clone().filter(|_| a.view == View::Buffer(self.parts[n].id))?];
            indices.extend(a.indices.iter().enumerate().map(|(d, e)| self.region[n].position(d, e)));
            let new = proved(self.locals[n].id, &self.locals[n].elem, indices);
            Some(Access { places: a.places.clone(), status: a.status.clone(), ..new })
        })
    }

    /// One nest over the elements; the partial results innermost, in order or by a tree reduction.
    pub fn combine(&self, work: &mut Work, labels: &mut Labels) -> Stmt {
        let region = &self.region[0];
        let mut loops = Vec::new();
        for d in 0..region.rank() {
            let hi = region.size_expr(d, &self.around.loops, &self.around.sizes);
            loops.push((work.fresh(lathe_ir::names::dimension(&labels.combine, d)), build::index(0), hi));
        }
        let at: Vec<Expr> = loops.iter().map(|l| build::var(&l.0)).collect();
        let element =
            |n: usize| at.iter().enumerate().map(move |(d, v)| self.region[n].element(d, v)).collect();
        let mut instance = self.around.instance();
        instance.extend::<Vec<Expr>>(element(0));
        let targets = self
            .parts
            .iter()
            .enumerate()
            .map(|(n, b)| Access { places: self.r.places.clone(), ..proved(b.id, &b.elem, element(n)) });
        let targets: Vec<Access> = targets.collect();
        if let Some(folds) = &labels.halves {
            let mut all = self.halves(work, folds, &instance, &at);
            all.push(self.reduce(&labels.combine, instance, targets, self.values(&build::index(0), &at)));
            return nest(loops, Stmt::seq(all), &self.r.places);
        }
        let part = match &self.exists {
            Some((part, _)) => part.clone(),
            None => work.fresh(Role::Parts.of(&labels.combine)),
        };
        instance.push(build::var(&part));
        let reduce = self.reduce(&labels.combine, instance, targets, self.values(&build::var(&part), &at));
        let combine = match (self.job.first, &self.exists) {
            (Some(f), Some((_, exists))) => f.combine(reduce, &part, self.around, exists),
            _ => reduce,
        };
        loops.push((part, build::index(0), self.count.clone()));
        nest(loops, combine, &self.r.places)
    }

    /// The second half of the partial results is combined into the first, until one is left: a loop per halving.
    fn halves(&self, work: &mut Work, labels: &[String], instance: &[Expr], at: &[Expr]) -> Vec<Stmt> {
        let mut count = self.count.as_int().unwrap_or(1);
        let mut out = Vec::new();
        for label in labels {
            let (pairs, kept) = (count / 2, count - count / 2);
            let part = work.fresh(Role::Parts.of(label));
            let mut instance = instance.to_vec();
            instance.push(build::var(&part));
            let to = self.locals.iter().map(|l| proved(l.id, &l.elem, self.position(&build::var(&part), at)));
            let from = build::add(build::var(&part), build::index(kept));
            let fold = self.reduce(label, instance, to.collect(), self.values(&from, at));
            out.push(nest(vec![(part, build::index(0), build::index(pairs))], fold, &self.r.places));
            count = kept;
        }
        out
    }

    fn position(&self, part: &Expr, at: &[Expr]) -> Vec<Expr> {
        std::iter::once(part).chain(at).cloned().collect()
    }

    /// The partial results of an element.
    fn values(&self, part: &Expr, at: &[Expr]) -> Vec<Expr> {
        self.locals.iter().map(|l| build::load(proved(l.id, &l.elem, self.position(part, at)))).collect()
    }

    fn reduce(&self, label: &str, instance: Vec<Expr>, targets: Vec<Access>, values: Vec<Expr>) -> Stmt {
        let reduce = Reduce {
            label: Label::new(label),
            instance,
            op: self.r.op.clone(),
            targets,
            values,
            licence: true,
            contract: false,
        };
        Stmt::new(StmtKind::Reduce(reduce), self.r.places.clone())
    }
}
