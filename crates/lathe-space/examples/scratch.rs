use lathe_diagnostics::FileId;
use lathe_space::Space;
use lathe_space::formats::json;
use lathe_space::space::{Generate, Order};
use std::time::Instant;
fn main() {
    for f in std::env::args().skip(1) {
        let def = json::parse(&std::fs::read_to_string(&f).unwrap(), FileId(0)).unwrap().space;
        for order in [Order::Declared, Order::Narrow, Order::Auto] {
            for threads in [1, 2] {
                let start = Instant::now();
                let s = Space::generate(&def, &Generate { order, threads, ..Generate::default() });
                let t = start.elapsed().as_secs_f64() * 1e3;
                match s {
                    Ok(s) => println!(
                        "{f} {order:?} {threads}: {t:.2} ms checks {} nodes {} size {}  {:?}",
                        s.checks(),
                        s.nodes(),
                        s.size(),
                        (0..s.dimensions())
                            .map(|l| s.params()[s.level_param(l)].name.clone())
                            .collect::<Vec<_>>()
                    ),
                    Err(e) => println!("{f} {order:?} {threads}: {t:.2} {e}"),
                }
            }
        }
    }
}
