//! The T4 format: recorded results of tuning, as the auto-tuning benchmark community exchanges them.

use crate::codes;
use crate::cost::{Cost, Invalid, Outcome, Why};
use crate::history::{Measured, Times, Tuned};
use lathe_diagnostics::Diagnostic;
use lathe_space::{Value, Values};
use serde::de::{Deserializer, Error, Visitor};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// A T4 file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Results {
    #[serde(default)]
    pub metadata: serde_json::Map<String, serde_json::Value>,
    pub results: Vec<Recorded>,
    #[serde(default)]
    pub schema_version: String,
}

/// One recorded evaluation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Recorded {
    pub timestamp: String,
    #[serde(with = "values")]
    pub configuration: Values,
    pub times: RecordedTimes,
    /// `correct`, or what made the configuration invalid.
    pub invalidity: String,
    pub correctness: f64,
    pub measurements: Vec<Measurement>,
    /// The names of the measurements that are minimized.
    pub objectives: Vec<String>,
}

/// In the unit that the metadata tell, usually milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RecordedTimes {
    pub compilation: f64,
    pub framework: f64,
    pub search_algorithm: f64,
    pub validation: f64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub runtimes: Vec<f64>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Measurement {
    pub name: String,
    pub value: Reading,
    pub unit: String,
}

/// What was read off: a number, or the word of a failure (`RuntimeFailedConfig`).
#[derive(Clone, Debug, PartialEq)]
pub enum Reading {
    Number(f64),
    Word(String),
}

impl Default for Reading {
    fn default() -> Reading {
        Reading::Word(String::new())
    }
}

impl Results {
    /// Reads a T4 file. Fields that a file leaves out are empty; a configuration must have plain values.
    pub fn read(text: &[u8]) -> Result<Results, Diagnostic> {
        serde_json::from_slice(text).map_err(|e| {
            Diagnostic::error(codes::RESULTS, format!("these are not T4 results: {e}"))
                .help("T4 is a JSON object with a list `results` of configurations and their measurements")
        })
    }

    pub fn write(&self) -> String {
        // Maps with text keys and numbers always have a JSON form.
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// The history of a session. `began` is when it began, since 1970; `objectives` names the parts of its costs.
    pub fn of(tuned: &Tuned, objectives: &[&str], began: Duration) -> Results {
        let mut metadata = serde_json::Map::new();
        metadata.insert("timeunit".into(), "milliseconds".into());
        metadata.insert("technique".into(), tuned.technique.clone().into());
        metadata.insert("seed".into(), tuned.seed.into());
        let results = tuned.history.iter().map(|e| {
            let (invalidity, readings) = match &e.outcome {
                Outcome::Valid(c) => {
                    ("correct", c.numbers().iter().map(|v| Reading::Number(*v)).collect::<Vec<_>>())
                }
                Outcome::Invalid(i) => {
                    (invalidity(i.why), vec![Reading::Word(i.message.clone()); objectives.len().max(1)])
                }
            };
            let measurement = |(i, value): (usize, Reading)| Measurement {
                name: objectives.get(i).map_or(format!("cost{i}"), |n| n.to_string()),
                value,
                unit: String::new(),
            };
            Recorded {
                timestamp: timestamp(began + e.at),
                configuration: e.configuration.to_values(),
                times: RecordedTimes {
                    compilation: e.times.compile * 1e3,
                    framework: 0.0,
                    search_algorithm: e.times.search * 1e3,
                    validation: e.times.validate * 1e3,
                    runtimes: e.runtimes.iter().map(|t| t * 1e3).collect(),
                },
                invalidity: invalidity.to_string(),
                correctness: f64::from(u8::from(e.outcome.cost().is_some())),
                measurements: readings.into_iter().enumerate().map(measurement).collect(),
                objectives: objectives.iter().map(|n| n.to_string()).collect(),
            }
        });
        Results { metadata, results: results.collect(), schema_version: "1.0.0".to_string() }
    }
}

impl Recorded {
    /// The cost (of all objectives), or the reason why there is none. Without a numeric measurement, the mean of the
    /// runtimes is the cost.
    pub fn outcome(&self) -> Outcome {
        let named = |n: &String| self.measurements.iter().find(|m| &m.name == n);
        let chosen: Vec<&Measurement> = if self.objectives.is_empty() {
            self.measurements.iter().take(1).collect()
        } else {
            self.objectives.iter().filter_map(named).collect()
        };
        if self.invalidity != "correct" && !self.invalidity.is_empty() {
            let why = why(&self.invalidity);
            let word = chosen.iter().find_map(|m| match &m.value {
                Reading::Word(w) if !w.is_empty() => Some(w.clone()),
                _ => None,
            });
            return Outcome::Invalid(Invalid::new(why, word.unwrap_or_else(|| self.invalidity.clone())));
        }
        let numbers: Option<Vec<f64>> = chosen
            .iter()
            .map(|m| match m.value {
                Reading::Number(v) => Some(v),
                Reading::Word(_) => None,
            })
            .collect();
        let runtimes = &self.times.runtimes;
        match numbers.filter(|n| !n.is_empty()) {
            Some(n) => Outcome::Valid(Cost::new(n)),
            None if !runtimes.is_empty() => {
                Outcome::Valid((runtimes.iter().sum::<f64>() / runtimes.len() as f64).into())
            }
            None => Outcome::Invalid(Invalid::new(Why::Runtime, "no number was measured")),
        }
    }

    /// The outcome with its times, which are taken to be in milliseconds.
    pub fn measured(&self) -> Measured {
        let run: f64 = self.times.runtimes.iter().sum();
        let times = Times {
            compile: self.times.compilation / 1e3,
            run: run / 1e3,
            validate: self.times.validation / 1e3,
            ..Times::default()
        };
        let runtimes = self.times.runtimes.iter().map(|t| t / 1e3).collect();
        Measured { outcome: self.outcome(), times, runtimes }
    }
}

/// The format's words, and the reasons that they stand for; the first word of a reason is the one written.
const WORDS: [(&str, Why); 9] = [
    ("compile", Why::Compile),
    ("runtime", Why::Runtime),
    ("timeout", Why::Timeout),
    ("constraints", Why::Refused),
    ("correctness", Why::Wrong),
    ("memory", Why::Memory),
    ("nan", Why::NotANumber),
    ("compilation", Why::Compile),
    ("incorrect", Why::Wrong),
];

fn invalidity(why: Why) -> &'static str {
    WORDS.iter().find(|w| w.1 == why).map_or("runtime", |w| w.0)
}

fn why(word: &str) -> Why {
    WORDS.iter().find(|w| w.0 == word).map_or(Why::Runtime, |w| w.1)
}

/// `2023-12-22 09:54:05.502007+00:00` for a time since 1970.
fn timestamp(t: Duration) -> String {
    let (days, seconds) = (t.as_secs() / 86_400, t.as_secs() % 86_400);
    let (year, month, day) = date(days);
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}.{:06}+00:00",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60,
        t.subsec_micros()
    )
}

/// The Gregorian date of a day since 1970-01-01. Years are counted from March, so that the leap day is the last.
fn date(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, day) = (shifted / 146_097, shifted % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let from_march = (5 * day + 2) / 153;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day - (153 * from_march + 2) / 5 + 1)
}

/// Values of parameters: truth values, integers, numbers, words. Integers beyond 64 bits are numbers.
struct Plain(Value);

impl<'de> Deserialize<'de> for Plain {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Plain, D::Error> {
        struct Read;
        impl Visitor<'_> for Read {
            type Value = Plain;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("true, false, a number or a word")
            }
            fn visit_bool<E>(self, v: bool) -> Result<Plain, E> {
                Ok(Plain(Value::Bool(v)))
            }
            fn visit_i64<E>(self, v: i64) -> Result<Plain, E> {
                Ok(Plain(Value::Int(v)))
            }
            fn visit_u64<E>(self, v: u64) -> Result<Plain, E> {
                Ok(Plain(i64::try_from(v).map_or(Value::Float(v as f64), Value::Int)))
            }
            fn visit_f64<E>(self, v: f64) -> Result<Plain, E> {
                Ok(Plain(Value::Float(v)))
            }
            fn visit_str<E: Error>(self, v: &str) -> Result<Plain, E> {
                Ok(Plain(Value::Str(v.to_string())))
            }
        }
        d.deserialize_any(Read)
    }
}

mod values {
    use super::{Deserializer, Plain, Serializer, Values};
    use serde::de::{MapAccess, Visitor};
    use std::fmt;

    pub fn serialize<S: Serializer>(v: &Values, s: S) -> Result<S::Ok, S::Error> {
        s.collect_map(v)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Values, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Values;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of parameter values")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Values, A::Error> {
                let mut out = Values::new();
                while let Some((name, value)) = map.next_entry::<String, Plain>()? {
                    out.insert(name, value.0);
                }
                Ok(out)
            }
        }
        d.deserialize_map(Read)
    }
}

impl<'de> Deserialize<'de> for Reading {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Reading, D::Error> {
        struct Read;
        impl Visitor<'_> for Read {
            type Value = Reading;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number, or the word of a failure")
            }
            fn visit_f64<E>(self, v: f64) -> Result<Reading, E> {
                Ok(Reading::Number(v))
            }
            fn visit_i64<E>(self, v: i64) -> Result<Reading, E> {
                Ok(Reading::Number(v as f64))
            }
            fn visit_u64<E>(self, v: u64) -> Result<Reading, E> {
                Ok(Reading::Number(v as f64))
            }
            fn visit_str<E: Error>(self, v: &str) -> Result<Reading, E> {
                Ok(Reading::Word(v.to_string()))
            }
            fn visit_unit<E>(self) -> Result<Reading, E> {
                Ok(Reading::default())
            }
        }
        d.deserialize_any(Read)
    }
}

impl Serialize for Reading {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self {
            Reading::Number(v) => s.serialize_f64(*v),
            Reading::Word(w) => s.serialize_str(w),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"{"metadata": {"timeunit": "miliseconds"}, "results": [
        {"timestamp": "t", "configuration": {"a": 16, "b": 0.5, "c": "x", "d": true},
         "times": {"compilation": 918.5, "runtimes": [3.0, 5.0]}, "invalidity": "correct", "correctness": 1,
         "measurements": [{"name": "energy", "value": 7, "unit": "J"}, {"name": "time", "value": 4.5, "unit": ""}],
         "objectives": ["time"]},
        {"configuration": {"a": 1}, "invalidity": "runtime",
         "measurements": [{"name": "time", "value": "RuntimeFailedConfig", "unit": ""}], "objectives": ["time"]},
        {"configuration": {"a": 2}, "times": {"runtimes": [3.0, 5.0]}, "invalidity": "correct"}],
        "schema_version": "1.0.0"}"#;

    #[test]
    fn costs_and_failures_are_read() {
        let r = Results::read(TEXT.as_bytes()).unwrap();
        let c = &r.results[0].configuration;
        assert_eq!((&c["a"], &c["b"]), (&Value::Int(16), &Value::Float(0.5)));
        assert_eq!((&c["c"], &c["d"]), (&Value::Str("x".into()), &Value::Bool(true)));
        assert_eq!(r.results[0].outcome(), Outcome::Valid(4.5.into()));
        assert_eq!(r.results[0].measured().times.compile, 0.9185);
        let failed = Outcome::Invalid(Invalid::new(Why::Runtime, "RuntimeFailedConfig"));
        assert_eq!(r.results[1].outcome(), failed);
        assert_eq!(r.results[2].outcome(), Outcome::Valid(4.0.into()));
        assert_eq!(r.metadata["timeunit"], "miliseconds");
    }

    #[test]
    fn what_is_written_reads_back() {
        let r = Results::read(TEXT.as_bytes()).unwrap();
        assert_eq!(Results::read(r.write().as_bytes()).unwrap(), r);
    }

    #[test]
    fn garbled_files_give_one_clear_error() {
        for text in [
            "",
            "[]",
            "{}",
            "{\"results\": 3}",
            &TEXT[..200],
            r#"{"results": [{"configuration": {"a": [1]}}]}"#,
            r#"{"results": [{"configuration": 3}]}"#,
            r#"{"results": [{"measurements": [{"value": {}}]}]}"#,
        ] {
            assert_eq!(Results::read(text.as_bytes()).unwrap_err().code, codes::RESULTS, "{text}");
        }
    }

    #[test]
    fn times_are_dates() {
        assert_eq!(timestamp(Duration::ZERO), "1970-01-01 00:00:00.000000+00:00");
        let t = Duration::from_micros(1_703_238_845_502_007);
        assert_eq!(timestamp(t), "2023-12-22 09:54:05.502007+00:00");
        assert_eq!(date(11_016), (2000, 2, 29));
        assert_eq!(date(11_017), (2000, 3, 1));
    }
}
