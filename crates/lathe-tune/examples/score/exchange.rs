//! Tables as T1 and T4 files.

use crate::tables::Table;
use lathe_space::{ParamType, Value};
use lathe_tune::t4::{Measurement, Reading, Recorded, Results};
use serde_json::{Map, Value as Json, json};
use std::error::Error;
use std::path::Path;

fn python(v: &Value) -> String {
    match v {
        Value::Bool(true) => "True".to_string(),
        Value::Bool(false) => "False".to_string(),
        Value::Str(s) => format!("'{s}'"),
        other => other.to_string(),
    }
}

/// Writes `NAME_T1.json` and `NAME_T4.json`.
pub fn write(table: &Table, folder: &Path) -> Result<(), Box<dyn Error>> {
    std::fs::create_dir_all(folder)?;
    let space = &table.space;
    let param = |(i, p): (usize, &lathe_space::TuningParameter)| {
        // Only values that occur: tuners that list them before filtering cannot know what `240 % i1 == 0` leaves.
        let occurring = |v: &Value| space.iter().any(|c| c.get(&p.name) == Some(v));
        let values: Vec<Value> =
            (0..space.values_of(i)).filter_map(|v| space.value_of(i, v)).filter(occurring).collect();
        let listed: Vec<String> = values.iter().map(python).collect();
        let ty = match p.ty {
            ParamType::Bool => "bool",
            ParamType::Int => "int",
            ParamType::Float => "float",
            ParamType::Str => "string",
        };
        json!({"Name": p.name, "Type": ty, "Values": format!("[{}]", listed.join(", ")), "Default": values.first()})
    };
    let params: Vec<Json> = space.params().iter().enumerate().map(param).collect();
    let conditions: Vec<Json> = table.conditions.iter().map(|c| json!({"Expression": c})).collect();
    let t1 = json!({
        "General": {"BenchmarkName": table.name, "OutputFormat": "JSON"},
        "ConfigurationSpace": {"TuningParameters": params, "Conditions": conditions},
    });
    std::fs::write(folder.join(format!("{}_T1.json", table.name)), serde_json::to_string_pretty(&t1)?)?;
    let recorded = |(c, cost): (lathe_space::Configuration, &f64)| {
        let valid = cost.is_finite();
        let value = if valid { Reading::Number(*cost) } else { Reading::Word("RuntimeFailedConfig".into()) };
        Recorded {
            configuration: c.to_values(),
            invalidity: if valid { "correct" } else { "runtime" }.to_string(),
            correctness: f64::from(u8::from(valid)),
            measurements: vec![Measurement { name: "time".into(), value, unit: String::new() }],
            objectives: vec!["time".into()],
            ..Recorded::default()
        }
    };
    let t4 = Results {
        metadata: Map::new(),
        results: space.iter().zip(&table.costs).map(recorded).collect(),
        schema_version: "1.0.0".to_string(),
    };
    std::fs::write(folder.join(format!("{}_T4.json", table.name)), t4.write())?;
    Ok(())
}
