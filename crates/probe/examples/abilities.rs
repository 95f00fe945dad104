//! Prints what can be read here: `cargo run -p lowtide-probe --example abilities`.
#![allow(clippy::print_stdout, reason = "for people to read")]

use lowtide_probe::events::{Feed, Scope};
use lowtide_probe::{Root, abilities, gpu::Gpu};

fn main() {
    let root = Root::live();
    for ability in abilities::all(&root) {
        println!("{:<26} {:<12} {}", ability.name, ability.reading.word(), ability.detail);
    }
    let source = |scope| Feed::open(&root, scope).source();
    println!("own children by {:?}, anybody by {:?}", source(Scope::OwnChildren), source(Scope::Anybody));
    for card in Gpu::open().known().iter().flat_map(Gpu::read) {
        println!("{card:?}");
    }
}
