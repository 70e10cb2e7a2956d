//! Clusters of blocks, from compute capability 9.0 on: what all blocks share lies in the first one's shared memory, as in
//! the CUDA C of `lathe-source`.

use crate::emit::Emitter;
use crate::ir::Value;
use crate::value::Leaf;
use lathe_device::Cluster;
use lathe_ir::build::index;

impl Emitter<'_> {
    /// The number of the cluster, of that of the block; the block's place in it has a name from here on.
    pub fn cluster(&mut self, c: &Cluster, block: Value) -> Value {
        let blocks = self.ir.i64(c.blocks);
        let rank = self.ir.urem(block, blocks);
        self.frame.vars.insert(c.rank.id, Leaf::Uniform(rank));
        self.ranges.enter_loop(c.rank.id, &index(0), &index(c.blocks));
        self.device.rank = Some(c.rank.id);
        self.ir.udiv(block, blocks)
    }

    /// The address in the first block's memory of what lies there in this one's.
    pub fn of_first_block(&self, mine: Value) -> Value {
        self.ir.intrinsic("llvm.nvvm.mapa.shared.cluster", &[], &[mine, self.ir.i32(0)])
    }

    /// All threads of the cluster wait for one another, and see what the others did.
    pub fn wait_for_cluster(&self) {
        for half in ["arrive", "wait"] {
            self.ir.intrinsic(&format!("llvm.nvvm.barrier.cluster.{half}"), &[], &[]);
        }
    }
}
