//! Has `crates/hot` take its locks and atomics from `shuttle`.

fn main() {
    println!("cargo:rustc-check-cfg=cfg(interleavings)");
    println!("cargo:rustc-cfg=interleavings");
}
