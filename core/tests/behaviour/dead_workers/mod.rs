//! Workers die without notice: their memory comes back without a sweep by hand, and their deaths
//! pin nothing.
#![cfg(linux_backend)] // it needs the kernel
#![allow(unsafe_code)]

mod dead_holders;
mod idle_pools;
mod supervisors;

use crate::watched::Pool;

const MIB: u64 = 1 << 20;
/// A pool that has room for more than all of the dead workers leave.
const POOL: Pool = Pool::Bytes(1 << 30);
