//! Clusters of blocks in CUDA C, for compute capability 9.0 and later: what all blocks share lies in the first one's
//! shared memory.

use super::language::Language;
use crate::emit::{Buf, Emitter, Place, Result, Var, lift};
use lathe_device::{Cluster, KernelPlan};
use lathe_ir::build::index;
use lathe_ir::lower::storage;

/// All threads of the cluster wait for one another, and see what the others did.
pub const BARRIER: &str = "lathe_cluster_barrier();";

/// The barrier, and the address in the first block's memory of what lies there in this one's.
pub const FUNCTIONS: &str = "\
static __device__ __forceinline__ void lathe_cluster_barrier() {
    asm volatile(\"barrier.cluster.arrive.release;\" ::: \"memory\");
    asm volatile(\"barrier.cluster.wait.acquire;\" ::: \"memory\");
}
template <typename T> static __device__ __forceinline__ T *lathe_cluster_first(T *mine) {
    unsigned long long first;
    asm(\"mapa.u64 %0, %1, 0;\" : \"=l\"(first) : \"l\"(mine));
    return (T *)first;
}
";

/// Blocks of a cluster.
pub fn size(k: &KernelPlan) -> i64 {
    k.cluster.as_ref().map_or(1, |c| c.blocks)
}

impl Emitter<'_> {
    /// The number of the block in its cluster.
    pub(super) fn cluster_rank(&mut self, c: &Cluster, language: Language) {
        let name = self.names.fresh("rank");
        self.line(format!("const int64_t {name} = (int64_t)({} % {});", language.numbers().0, c.blocks));
        self.vars.insert(c.rank.id, Var { name, ty: c.rank.ty, frame: 0, lanes: false });
        self.ranges.enter_loop(c.rank.id, &index(0), &index(c.blocks));
    }

    /// The names by which all blocks reach what they share.
    pub(super) fn cluster_shared(&mut self, c: &Cluster) -> Result<()> {
        for b in &c.shared {
            let here = self.buf(b.id)?.name.clone();
            let (elem, name) = (self.element_type(&b.elem)?, self.names.fresh(&b.name));
            self.line(format!("{elem} *{name} = lathe_cluster_first(&{here}[0]);"));
            let storage = Place::Local { strides: storage(b).map_err(lift)?.strides };
            self.bufs.insert(b.id, Buf { decl: b.clone(), name, frame: 0, storage });
        }
        Ok(())
    }
}
