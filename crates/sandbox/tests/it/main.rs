//! The sandbox seen from outside: real sockets on loopback, port 0.

mod control;
mod faults;
mod max;
mod telegram;
mod vk;
mod wire;
