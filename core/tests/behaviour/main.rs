//! What users of the library see: each file is one subject, and each test's name says what must
//! hold. Nearly all run in processes of their own (`support::scenario`).
#![allow(missing_docs)]

mod support;

#[cfg(linux_backend)]
#[path = "support/beside_strangers.rs"]
mod beside_strangers;
#[cfg(linux_backend)]
#[path = "support/denied.rs"]
mod denied;
#[cfg(linux_backend)]
#[path = "support/exchange.rs"]
mod exchange;
#[cfg(all(target_os = "linux", not(miri)))]
#[path = "support/watched.rs"]
mod watched;

mod address_space;
mod allocator;
mod arrays;
mod cells;
mod channels;
mod cleaners;
mod closed_fds;
mod data_races;
mod dead_workers;
mod denied_calls;
mod endurance;
mod fd_limits;
mod fork_moments;
mod given_back;
mod huge_pages;
mod large_numbers;
mod leases;
mod leftovers;
mod linux;
mod listings;
mod lists;
mod messages;
mod names;
mod npy;
mod npy_attacks;
mod npy_corpus;
mod npy_properties;
mod npy_stopped;
mod owned;
mod pipes;
mod pool;
mod queue_slots;
mod queue_tasks;
mod reductions;
mod squatters;
mod stranger_files;
mod strangers;
mod surroundings;
mod threads;
mod trials;
mod users;
