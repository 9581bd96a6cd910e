//! The protocols, each searched exhaustively: every state that a few processes can reach, each of
//! which may stop or die before every step. Weaker protocols are searched too, and each is caught.
// The models are the same for every backend.
#![cfg(all(target_env = "gnu", linux_backend))]
#![allow(missing_docs)]

mod cells;
mod channels;
mod lifetime;
mod owned;
mod search;
mod unmapped;
