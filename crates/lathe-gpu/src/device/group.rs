//! Devices that NCCL has connected.

use crate::codes;
use crate::nccl::{Nccl, nccl};
use lathe_diagnostics::Diagnostic;
use std::ffi::c_int;
use std::sync::{Arc, Mutex, PoisonError};

/// The communicators of some devices, one for each.
pub(crate) struct Group {
    pub nccl: &'static Nccl,
    pub members: Vec<usize>,
}

impl Drop for Group {
    fn drop(&mut self) {
        self.members.iter().for_each(|c| self.nccl.abort(*c));
    }
}

/// The communicators of the devices that share an executor, made when they are first used.
#[derive(Default)]
pub(crate) struct Groups(Mutex<Option<Arc<Group>>>);

impl Groups {
    /// # Errors
    /// `E0856`.
    pub fn get(&self, ordinals: Option<Vec<c_int>>) -> Result<Arc<Group>, Diagnostic> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(group) = &*kept {
            return Ok(Arc::clone(group));
        }
        let Some(ordinals) = ordinals else {
            return Err(Diagnostic::error(codes::NCCL, "NCCL connects devices of CUDA only"));
        };
        let nccl = nccl()?;
        let members = nccl.communicators(&ordinals).map_err(|e| Diagnostic::error(codes::NCCL, e))?;
        Ok(Arc::clone(kept.insert(Arc::new(Group { nccl, members }))))
    }

    pub fn forget(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
