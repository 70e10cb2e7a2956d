//! Shapes of pictures, as SVG text.

use std::fmt::Write;

/// How a buffer looks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    Plain,
    /// It is not where it was before.
    Moved,
}

/// A picture that is being drawn.
pub struct Svg {
    width: f64,
    height: f64,
    body: String,
}

const STYLE: &str = "\
text{font-family:'Inter','Helvetica Neue',Arial,sans-serif;fill:#1f2933}\
.title{font-size:22px;font-weight:600}.sub{font-size:13px;fill:#52606d}\
.phase{font-size:13px;font-weight:600;fill:#2a6f97}\
.big{font-size:18px;font-weight:600}.name{font-size:13px;font-weight:600}.small{font-size:11px;fill:#52606d}\
.region{font-size:12px;fill:#52606d}.moved{font-size:12px;font-weight:700;fill:#b5500b}\
.tick{font-size:10px;fill:#52606d}.number{font-size:13px;font-weight:600;fill:#fff}\
.axis{font-size:11px;font-weight:600}.op{font-size:11px;fill:#2a6f97;font-weight:600}\
.chip{font-size:11px;font-weight:600}";

/// Text that stands for itself in SVG.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

type Point = (f64, f64);

impl Svg {
    pub fn new(width: f64, height: f64) -> Svg {
        Svg { width, height, body: String::new() }
    }

    /// The whole file.
    pub fn done(self, title: &str) -> String {
        let (w, h) = (self.width, self.height);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{w}\" height=\"{h}\" viewBox=\"0 0 {w} {h}\" role=\"img\">\n\
             <title>{}</title>\n<style>{STYLE}</style>\n\
             <rect width=\"{w}\" height=\"{h}\" fill=\"#ffffff\"/>\n{}</svg>\n",
            escape(title),
            self.body
        )
    }

    fn put(&mut self, text: std::fmt::Arguments) {
        let _ = self.body.write_fmt(text);
        self.body.push('\n');
    }

    /// Begins a group; [`Svg::close`] ends it.
    pub fn open(&mut self, attributes: &[(&str, &str)]) {
        let all: Vec<String> = attributes.iter().map(|(k, v)| format!("{k}=\"{}\"", escape(v))).collect();
        self.put(format_args!("<g {}>", all.join(" ")));
    }

    pub fn close(&mut self) {
        self.put(format_args!("</g>"));
    }

    pub fn text(&mut self, x: f64, y: f64, class: &str, text: &str) {
        self.put(format_args!("<text x=\"{x:.1}\" y=\"{y:.1}\" class=\"{class}\">{}</text>", escape(text)));
    }

    /// Centred at `x`.
    pub fn middle(&mut self, x: f64, y: f64, class: &str, text: &str) {
        self.anchored(x, y, class, text, "middle");
    }

    /// Ending at `x`.
    pub fn text_end(&mut self, x: f64, y: f64, class: &str, text: &str) {
        self.anchored(x, y, class, text, "end");
    }

    fn anchored(&mut self, x: f64, y: f64, class: &str, text: &str, anchor: &str) {
        let text = escape(text);
        self.put(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" class=\"{class}\" text-anchor=\"{anchor}\">{text}</text>"
        ));
    }

    pub fn dotted(&mut self, x: f64, y: f64, to: f64) {
        self.put(format_args!(
            "<line x1=\"{x:.1}\" y1=\"{y:.1}\" x2=\"{to:.1}\" y2=\"{y:.1}\" stroke=\"#9aa5b1\" stroke-dasharray=\"2 5\"/>"
        ));
    }

    /// The ground of what was chosen, or the frame of what is fixed.
    pub fn ground(&mut self, x: f64, y: f64, w: f64, h: f64, chosen: bool) {
        let look = match chosen {
            true => "fill=\"#fdf3d7\"",
            false => "fill=\"none\" stroke=\"#334e68\" stroke-width=\"1.6\"",
        };
        self.put(format_args!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{w:.1}\" height=\"{h:.1}\" rx=\"7\" {look}/>"
        ));
    }

    /// A number in a box.
    pub fn boxed(&mut self, x: f64, y: f64, number: usize) {
        self.put(format_args!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"26\" height=\"24\" rx=\"4\" fill=\"#334e68\"/>"
        ));
        self.middle(x + 13.0, y + 17.0, "number", &number.to_string());
    }

    /// A label on a ground of its own.
    pub fn chip(&mut self, x: f64, y: f64, text: &str, strong: bool) {
        let w = 7.0 * text.chars().count() as f64 + 14.0;
        let (fill, stroke) = if strong { ("#d3ecdf", "#2f855a") } else { ("#eef1f4", "#9aa5b1") };
        self.put(format_args!(
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{w:.1}\" height=\"18\" rx=\"9\" fill=\"{fill}\" stroke=\"{stroke}\"/>",
            x - w / 2.0,
            y - 9.0
        ));
        self.middle(x, y + 4.0, "chip", text);
    }

    fn line(&mut self, a: Point, b: Point, stroke: &str, width: f64) {
        self.put(format_args!(
            "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"{stroke}\" stroke-width=\"{width}\"/>",
            a.0, a.1, b.0, b.1
        ));
    }

    fn polygon(&mut self, points: &[Point], fill: &str, stroke: &str) {
        let all: Vec<String> = points.iter().map(|p| format!("{:.1},{:.1}", p.0, p.1)).collect();
        self.put(format_args!(
            "<polygon points=\"{}\" fill=\"{fill}\" stroke=\"{stroke}\" stroke-linejoin=\"round\"/>",
            all.join(" ")
        ));
    }

    fn arrow(&mut self, a: Point, b: Point, stroke: &str, width: f64) {
        self.line(a, b, stroke, width);
        let (dx, dy) = (b.0 - a.0, b.1 - a.1);
        let n = (dx * dx + dy * dy).sqrt().max(1e-9);
        let (ux, uy) = (dx / n, dy / n);
        let tip = |side: f64| (b.0 - 5.0 * ux - side * 3.0 * uy, b.1 - 5.0 * uy + side * 3.0 * ux);
        self.polygon(&[(b.0 + ux, b.1 + uy), tip(1.0), tip(-1.0)], stroke, stroke);
    }

    /// The three dimensions of cores, the one in use strong; further dimensions are beside the cross.
    pub fn cross(&mut self, x: f64, y: f64, axis: usize, core: bool) {
        let o = (x - 6.0, y + 8.0);
        let ends = [((o.0 + 30.0, o.1), "x"), ((o.0, o.1 - 28.0), "y"), ((o.0 - 15.0, o.1 + 13.0), "z")];
        for (n, (end, name)) in ends.into_iter().enumerate() {
            let (stroke, width) = match (n == axis, core) {
                (true, true) => ("#2f855a", 2.6),
                (true, false) => ("#52606d", 2.0),
                _ => ("#cbd2d9", 1.2),
            };
            self.arrow(o, end, stroke, width);
            let (dx, dy) = [(7.0, 4.0), (8.0, 3.0), (-8.0, 3.0)][n];
            self.middle(end.0 + dx, end.1 + dy, "tick", name);
        }
        if axis > 2 {
            self.middle(x + 34.0, y - 12.0, "tick", &format!("dim. {}", axis + 1));
        }
    }

    /// A buffer with a cross of axes: the dimension whose elements are neighbours points to the right.
    pub fn buffer(&mut self, x: f64, y: f64, rank: usize, layout: &[usize], tone: Tone) {
        let (fill, stroke) = match tone {
            Tone::Plain => ("#e3ecf5", "#486581"),
            Tone::Moved => ("#fbdcc4", "#b5500b"),
        };
        let (x, y) = (x + 8.0, y);
        match rank {
            0 => self.rect(x - 7.0, y - 7.0, 14.0, 14.0, fill, stroke),
            1 => {
                self.rect(x - 26.0, y - 7.0, 52.0, 14.0, fill, stroke);
                for k in 1..4 {
                    let at = x - 26.0 + 13.0 * f64::from(k);
                    self.line((at, y - 7.0), (at, y + 7.0), stroke, 0.5);
                }
            }
            _ => {
                for k in (0..rank.clamp(2, 4) - 1).rev() {
                    let s = 5.0 * k as f64;
                    self.rect(x - 26.0 + s, y - 20.0 - s, 52.0, 40.0, fill, stroke);
                }
                for k in 1..4 {
                    let at = x - 26.0 + 13.0 * f64::from(k);
                    self.line((at, y - 20.0), (at, y + 20.0), stroke, 0.5);
                    let at = y - 20.0 + 10.0 * f64::from(k);
                    self.line((x - 26.0, at), (x + 26.0, at), stroke, 0.5);
                }
            }
        }
        if let Some(last) = layout.last() {
            let o = (x - 34.0, y + 29.0);
            self.arrow(o, (o.0 + 34.0, o.1), stroke, 1.2);
            self.middle(o.0 + 42.0, o.1 + 4.0, "tick", &(last + 1).to_string());
            if layout.len() > 1 {
                self.arrow(o, (o.0, o.1 - 40.0), stroke, 1.2);
                let others: Vec<String> =
                    layout[..layout.len() - 1].iter().map(|k| (k + 1).to_string()).collect();
                self.text_end(o.0 + 4.0, o.1 - 45.0, "tick", &others.join(" "));
            }
        }
    }

    fn rect(&mut self, x: f64, y: f64, w: f64, h: f64, fill: &str, stroke: &str) {
        self.put(format_args!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{w:.1}\" height=\"{h:.1}\" fill=\"{fill}\" stroke=\"{stroke}\"/>"
        ));
    }

    /// An iteration space: a bar, a rectangle, a block, or a bar per dimension where there are more than three.
    /// Labels are the axes' names with extents, and their operators. The cut dimension shows its parts, the first of
    /// them shaded.
    pub fn space(&mut self, x: f64, y: f64, labels: &[(String, String)], cut: Option<(usize, usize)>) {
        if labels.len() > 3 {
            return self.bars(x, y, labels, cut);
        }
        // Unit coordinates: down, to the right, into the depth.
        let (w, h, depth) = match labels.len() {
            0 | 1 => (104.0, 24.0, (0.0, 0.0)),
            2 => (100.0, 72.0, (0.0, 0.0)),
            _ => (84.0, 60.0, (30.0, 22.0)),
        };
        let (ox, oy) = (x + 46.0, y + 16.0 + depth.1 + if labels.len() < 2 { 26.0 } else { 0.0 });
        let at = |v: f64, u: f64, d: f64| (ox + u * w + d * depth.0, oy + v * h - d * depth.1);
        // One dimension runs to the right.
        let of = |k: usize, lo: f64, hi: f64| {
            let mut r = [(0.0, 1.0); 3];
            r[if labels.len() < 2 { 1 } else { k }] = (lo, hi);
            r
        };
        let mut block = |r: [(f64, f64); 3], fills: [&str; 3]| {
            let [(v0, v1), (u0, u1), (d0, d1)] = r;
            self.polygon(
                &[at(v0, u0, d0), at(v0, u1, d0), at(v1, u1, d0), at(v1, u0, d0)],
                fills[0],
                "#486581",
            );
            if depth.0 > 0.0 {
                self.polygon(
                    &[at(v0, u0, d0), at(v0, u1, d0), at(v0, u1, d1), at(v0, u0, d1)],
                    fills[1],
                    "#486581",
                );
                self.polygon(
                    &[at(v0, u1, d0), at(v1, u1, d0), at(v1, u1, d1), at(v0, u1, d1)],
                    fills[2],
                    "#486581",
                );
            }
        };
        block([(0.0, 1.0); 3], ["#f0f4f8", "#e4eaf1", "#d9e2ec"]);
        if let Some((k, parts)) = cut {
            let step = 1.0 / parts.max(1) as f64;
            for n in (1..parts).rev() {
                block(of(k, n as f64 * step, (n + 1) as f64 * step), ["#f0f4f8", "#e4eaf1", "#d9e2ec"]);
            }
            block(of(k, 0.0, step), ["#7fb2d9", "#9cc5e4", "#5f9ccb"]);
        }
        let places: [(Point, &str); 3] = if labels.len() < 2 {
            [(at(1.0, 0.5, 0.0), "below"), ((0.0, 0.0), ""), ((0.0, 0.0), "")]
        } else {
            [(at(0.5, 0.0, 0.0), "left"), (at(1.0, 0.5, 0.0), "below"), (at(1.0, 1.0, 0.5), "right")]
        };
        for ((name, op), (p, side)) in labels.iter().zip(places) {
            match side {
                "left" => {
                    self.text_end(p.0 - 6.0, p.1 - 2.0, "axis", name);
                    self.text_end(p.0 - 6.0, p.1 + 12.0, "op", op);
                }
                "right" => {
                    self.text(p.0 + 5.0, p.1 + 6.0, "axis", name);
                    self.text(p.0 + 5.0, p.1 + 20.0, "op", op);
                }
                _ => {
                    self.middle(p.0, p.1 + 15.0, "axis", name);
                    self.middle(p.0, p.1 + 29.0, "op", op);
                }
            }
        }
    }

    fn bars(&mut self, x: f64, y: f64, labels: &[(String, String)], cut: Option<(usize, usize)>) {
        let pitch = (126.0 / labels.len() as f64).min(22.0);
        for (k, (name, op)) in labels.iter().enumerate() {
            let (bx, by, w, h) = (x + 64.0, y + pitch * k as f64, 84.0, pitch * 0.62);
            self.text_end(bx - 6.0, by + h - 1.0, "tick", name);
            self.rect(bx, by, w, h, "#f0f4f8", "#829ab1");
            if let Some((d, parts)) = cut
                && d == k
            {
                let step = w / parts.max(1) as f64;
                self.rect(bx, by, step, h, "#7fb2d9", "#486581");
                for n in 1..parts {
                    let at = bx + n as f64 * step;
                    self.line((at, by), (at, by + h), "#486581", 0.8);
                }
            }
            self.text(bx + w + 6.0, by + h - 1.0, "tick", op);
        }
    }
}
