//! What ran when: as text, JSON, a picture, and for the viewer of Chrome.

use lathe_host::Ran;
use std::fmt::Write;

/// One thing that a device or the host did.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// The place of its device among the profile's devices; none for the host.
    pub device: Option<usize>,
    /// The device's queue: 0 for copies to it, 1 for copies to the host, 2 and 3 for copies from devices before and behind it,
    /// the rest for kernels.
    pub queue: u32,
    pub name: String,
    /// Of a copy.
    pub bytes: Option<u64>,
    /// In seconds since the profile was begun, by the clock of the device.
    pub start: f64,
    pub end: f64,
}

/// Initialization, compilation, transfers and execution.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profile {
    /// Ids and names.
    pub devices: Vec<(String, String)>,
    /// Seconds for opening the devices.
    pub initialization: f64,
    /// What was compiled or loaded, and the seconds that it took.
    pub compilation: Vec<(String, f64)>,
    pub spans: Vec<Span>,
}

impl Profile {
    pub(crate) fn new(
        devices: Vec<(String, String)>,
        initialization: f64,
        compilation: Vec<(String, f64)>,
        ran: Vec<Ran>,
    ) -> Profile {
        let mut spans: Vec<Span> = ran
            .into_iter()
            .map(|r| Span {
                device: Some(r.stream.device as usize),
                queue: r.stream.number,
                name: r.name,
                bytes: r.bytes,
                start: r.interval.start,
                end: r.interval.end.max(r.interval.start),
            })
            .collect();
        spans.sort_by(|a, b| a.start.total_cmp(&b.start));
        Profile { devices, initialization, compilation, spans }
    }

    /// Seconds that a device spent in copies and in kernels; both may run at once.
    pub fn busy(&self, device: usize) -> (f64, f64) {
        let of = |copies: bool| -> f64 {
            let here = |s: &&Span| s.device == Some(device) && s.bytes.is_some() == copies;
            self.spans.iter().filter(here).map(|s| s.end - s.start).sum()
        };
        (of(true), of(false))
    }

    /// A table: what took how long, by name.
    pub fn text(&self) -> String {
        let mut out = format!("initialization  {:>10.3} ms\n", self.initialization * 1e3);
        for (what, seconds) in &self.compilation {
            let _ = writeln!(out, "{what:<15} {:>10.3} ms", seconds * 1e3);
        }
        for (n, (id, name)) in self.devices.iter().enumerate() {
            let (copies, kernels) = self.busy(n);
            let _ = writeln!(out, "{id} ({name})");
            let _ = writeln!(out, "  transfers     {:>10.3} ms", copies * 1e3);
            let _ = writeln!(out, "  execution     {:>10.3} ms", kernels * 1e3);
            let mut names: Vec<&str> =
                self.spans.iter().filter(|s| s.device == Some(n)).map(|s| s.name.as_str()).collect();
            names.sort_unstable();
            names.dedup();
            for name in names {
                let all: Vec<&Span> =
                    self.spans.iter().filter(|s| s.device == Some(n) && s.name == name).collect();
                let seconds: f64 = all.iter().map(|s| s.end - s.start).sum();
                let bytes: u64 = all.iter().filter_map(|s| s.bytes).sum();
                let _ = write!(out, "    {:>6} × {name:<30} {:>10.3} ms", all.len(), seconds * 1e3);
                if bytes > 0 {
                    let _ =
                        write!(out, ", {bytes} bytes, {:.2} GB/s", bytes as f64 / seconds.max(1e-12) / 1e9);
                }
                out.push('\n');
            }
        }
        out
    }

    pub fn json(&self) -> String {
        let devices: Vec<String> = (self.devices.iter().enumerate())
            .map(|(n, (id, name))| {
                let (copies, kernels) = self.busy(n);
                format!(
                    "{{\"id\": {}, \"name\": {}, \"transfer_s\": {copies:e}, \"kernel_s\": {kernels:e}}}",
                    quoted(id),
                    quoted(name)
                )
            })
            .collect();
        let compilation = self.compilation.iter();
        let compilation: Vec<String> =
            compilation.map(|(w, s)| format!("{{\"what\": {}, \"s\": {s:e}}}", quoted(w))).collect();
        let spans: Vec<String> = (self.spans.iter())
            .map(|s| {
                format!(
                    "{{\"device\": {}, \"queue\": {}, \"name\": {}, \"bytes\": {}, \"start_s\": {:e}, \"end_s\": {:e}}}",
                    s.device.map_or("null".to_string(), |d| d.to_string()),
                    s.queue,
                    quoted(&s.name),
                    s.bytes.map_or("null".to_string(), |b| b.to_string()),
                    s.start,
                    s.end
                )
            })
            .collect();
        format!(
            "{{\n\"initialization_s\": {:e},\n\"compilation\": [{}],\n\"devices\": [{}],\n\"spans\": [\n{}\n]\n}}\n",
            self.initialization,
            compilation.join(", "),
            devices.join(", "),
            spans.join(",\n")
        )
    }

    /// The format of `chrome://tracing` and Perfetto: complete events, a process per device, a thread per queue.
    pub fn chrome(&self) -> String {
        let mut all = Vec::new();
        for (n, (id, name)) in self.devices.iter().enumerate() {
            let name = quoted(&format!("{id} ({name})"));
            all.push(format!(
                "{{\"ph\": \"M\", \"pid\": {n}, \"name\": \"process_name\", \"args\": {{\"name\": {name}}}}}"
            ));
        }
        let mut queues: Vec<(usize, u32)> =
            self.spans.iter().filter_map(|s| Some((s.device?, s.queue))).collect();
        queues.sort_unstable();
        queues.dedup();
        for (d, q) in queues {
            let name = quoted(&queue_name(q));
            all.push(format!(
                "{{\"ph\": \"M\", \"pid\": {d}, \"tid\": {q}, \"name\": \"thread_name\", \"args\": {{\"name\": {name}}}}}"
            ));
        }
        for s in &self.spans {
            let bytes = s.bytes.map_or(String::new(), |b| format!(", \"args\": {{\"bytes\": {b}}}"));
            all.push(format!(
                "{{\"ph\": \"X\", \"pid\": {}, \"tid\": {}, \"name\": {}, \"ts\": {:.3}, \"dur\": {:.3}{bytes}}}",
                s.device.unwrap_or(0),
                s.queue,
                quoted(&s.name),
                s.start * 1e6,
                (s.end - s.start) * 1e6
            ));
        }
        format!("{{\"displayTimeUnit\": \"ns\", \"traceEvents\": [\n{}\n]}}\n", all.join(",\n"))
    }

    /// A picture: a row for each queue, time from left to right.
    pub fn svg(&self) -> String {
        let mut rows: Vec<(usize, u32)> =
            self.spans.iter().filter_map(|s| Some((s.device?, s.queue))).collect();
        rows.sort_unstable();
        rows.dedup();
        let first = self.spans.iter().map(|s| s.start).fold(f64::INFINITY, f64::min);
        let last = self.spans.iter().map(|s| s.end).fold(f64::NEG_INFINITY, f64::max);
        let length = if last > first { last - first } else { 1.0 };
        let (left, width, row) = (190.0, 760.0, 26.0);
        let height = 34.0 + row * rows.len() as f64 + 24.0;
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 990 {height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"990\" height=\"{height}\" fill=\"white\"/>\n"
        );
        for (at, label) in ticks(length) {
            let x = left + at / length * width;
            let _ = writeln!(
                out,
                "<line x1=\"{x:.2}\" x2=\"{x:.2}\" y1=\"20.0\" y2=\"{:.1}\" stroke=\"#ddd\"/>\
                 <text x=\"{x:.2}\" y=\"{:.1}\" text-anchor=\"middle\">{label}</text>",
                height - 24.0,
                height - 8.0
            );
        }
        let y_of = |n: usize| 24.0 + row * n as f64;
        for (n, (d, q)) in rows.iter().enumerate() {
            let id = self.devices.get(*d).map_or("", |d| d.0.as_str());
            let _ = writeln!(
                out,
                "<text x=\"8\" y=\"{:.1}\">{} {}</text><line x1=\"{left}\" x2=\"{}\" y1=\"{:.1}\" y2=\"{:.1}\" stroke=\"#ddd\"/>",
                y_of(n) + 15.0,
                escaped(id),
                queue_name(*q),
                left + width,
                y_of(n) + row - 2.0,
                y_of(n) + row - 2.0
            );
        }
        for s in &self.spans {
            let Some(n) = s.device.and_then(|d| rows.iter().position(|r| *r == (d, s.queue))) else {
                continue;
            };
            let x = left + (s.start - first) / length * width;
            let w = ((s.end - s.start) / length * width).max(0.5);
            let color = match (s.queue, s.bytes) {
                (0, Some(_)) => "#4c78a8",
                (_, Some(_)) => "#72b7b2",
                _ => "#f58518",
            };
            let name = escaped(&s.name);
            let _ = writeln!(
                out,
                "<rect x=\"{x:.2}\" y=\"{:.1}\" width=\"{w:.2}\" height=\"20\" fill=\"{color}\"><title>{name}: {:.1} µs</title></rect>",
                y_of(n) + 2.0,
                (s.end - s.start) * 1e6
            );
            if w > 7.0 * s.name.chars().count() as f64 {
                let _ = writeln!(
                    out,
                    "<text x=\"{:.2}\" y=\"{:.1}\" fill=\"white\">{name}</text>",
                    x + 3.0,
                    y_of(n) + 16.0
                );
            }
        }
        let _ = writeln!(
            out,
            "<text x=\"{}\" y=\"14\" text-anchor=\"end\">{:.3} ms in all</text>\n</svg>",
            left + width,
            length * 1e3
        );
        out
    }
}

/// Round times from 0 to a length, with labels in one unit that do not touch where the whole is hundreds of pixels wide.
fn ticks(length: f64) -> Vec<(f64, String)> {
    let scale = 10f64.powf((length / 8.0).log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|n| n * scale).find(|s| length / s <= 8.0);
    let step = step.unwrap_or(length);
    let (unit, name) = [(1.0, "s"), (1e-3, "ms"), (1e-6, "µs")]
        .into_iter()
        .find(|(unit, _)| length >= *unit)
        .unwrap_or((1e-9, "ns"));
    // As many digits as tell two neighbours apart.
    let digits = (-(step / unit).log10().floor()).max(0.0) as usize;
    let all = (0..=8).map(|n| n as f64 * step).take_while(|at| *at <= length * (1.0 + 1e-9));
    all.map(|at| (at, if at == 0.0 { "0".to_string() } else { format!("{:.digits$} {name}", at / unit) }))
        .collect()
}

fn queue_name(queue: u32) -> String {
    match queue {
        0 => "copies to it".to_string(),
        1 => "copies from it".to_string(),
        n => format!("kernels {}", n - 1),
    }
}

/// A string of JSON.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c < ' ' => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_and_times_add_up() {
        let span = |queue, name: &str, bytes, start, end| Span {
            device: Some(0),
            queue,
            name: name.to_string(),
            bytes,
            start,
            end,
        };
        let p = Profile {
            devices: vec![("cuda:0".into(), "a \"b\" <c>".into())],
            initialization: 0.5,
            compilation: vec![("compile f".into(), 0.25)],
            spans: vec![span(0, "copy", Some(8), 0.0, 1e-3), span(2, "f<\"\\\n>", None, 1e-3, 4e-3)],
        };
        let (copies, kernels) = p.busy(0);
        assert!((copies - 1e-3).abs() < 1e-12 && (kernels - 3e-3).abs() < 1e-12);
        for text in [p.json(), p.chrome()] {
            assert!(text.contains(r#"f<\"\\\u000a>"#), "{text}");
        }
        assert!(p.svg().contains("f&lt;") && p.svg().contains("4.000 ms"), "{}", p.svg());
        assert!(p.text().contains("cuda:0") && p.text().contains("3.000 ms"), "{}", p.text());
        for (length, want) in
            [(13.02e-3, "2 ms"), (4e-6, "0.5 µs"), (0.95, "200 ms"), (7.0, "1 s"), (3e-9, "0.5 ns")]
        {
            let all = ticks(length);
            assert_eq!(all[1].1, want, "{all:?}");
            assert!((3..=9).contains(&all.len()) && all.iter().all(|t| t.0 <= length * 1.000001), "{all:?}");
        }
        assert!(Profile::default().svg().ends_with("</svg>\n"));
    }

    /// The texts of a picture as boxes: from where to where, and at which height. Letters are at most 0.6 of the size of
    /// the font wide on average.
    fn boxes(svg: &str) -> Vec<(f64, f64, f64, String)> {
        let value = |tag: &str, name: &str| {
            let from = tag.split(&format!("{name}=\"")).nth(1)?;
            from.split('"').next().map(str::to_string)
        };
        let texts = svg.split("<text ").skip(1).filter_map(|t| t.split("</text>").next()?.split_once('>'));
        let placed = texts.map(|(tag, text)| {
            let number = |name: &str| value(tag, name).and_then(|v| v.parse::<f64>().ok()).expect("a number");
            let wide = text.chars().count() as f64 * 7.2;
            let left = match value(tag, "text-anchor").as_deref() {
                Some("end") => number("x") - wide,
                Some("middle") => number("x") - wide / 2.0,
                _ => number("x"),
            };
            (left, left + wide, number("y"), text.to_string())
        });
        placed.collect()
    }

    #[test]
    fn labels_are_inside_and_apart() {
        for length in [13.02e-3, 8e-3, 7.9999e-3, 1e-9, 0.9999, 1.0, 123.4, 15.99e-6] {
            let span = |device, queue, at: f64| Span {
                device: Some(device),
                queue,
                name: "heat_kernel_1".to_string(),
                bytes: (queue < 2).then_some(8),
                start: at * length,
                end: (at + 0.25) * length,
            };
            let spans = (0..4).flat_map(|q| (0..4).map(move |n| span(q % 2, q as u32, n as f64 / 4.0)));
            let p = Profile {
                devices: vec![("opencl:10".into(), "a".into()), ("cuda:0".into(), "b".into())],
                spans: spans.collect(),
                ..Profile::default()
            };
            let svg = p.svg();
            let height: f64 = svg
                .split("0 0 990 ")
                .nth(1)
                .and_then(|t| t.split('"').next()?.parse().ok())
                .expect("a height");
            let all = boxes(&svg);
            assert!(all.len() > 20, "{svg}");
            for (n, a) in all.iter().enumerate() {
                assert!(
                    a.0 >= 0.0 && a.1 <= 990.0 && a.2 >= 12.0 && a.2 <= height - 4.0,
                    "{length}: {a:?}\n{svg}"
                );
                for b in &all[n + 1..] {
                    let apart = (a.2 - b.2).abs() >= 12.0 || a.1 <= b.0 || b.1 <= a.0;
                    assert!(apart, "{length}: {a:?} {b:?}\n{svg}");
                }
            }
        }
    }
}
