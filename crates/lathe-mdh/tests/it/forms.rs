//! Decisions as text and JSON.

use crate::figures::{FIG_78, FIG_81, WORKED};
use crate::support::{homomorphism, model, sizes};
use lathe_mdh::{Decisions, codes, text};

#[test]
fn both_forms_round_trip() {
    for (file, kernel, on, written) in [
        ("linear_algebra", "matmul", "cuda", FIG_78),
        ("linear_algebra", "matmul", "openmp", FIG_81),
        ("linear_algebra", "matvec", "toy", WORKED),
    ] {
        let (h, m) = (homomorphism(file, kernel), model(on));
        let d = text::parse(&h, &m, written).unwrap_or_else(|e| panic!("{e}"));
        let printed = text::print(&h, &m, &d);
        assert_eq!(text::parse(&h, &m, &printed).unwrap(), d, "{printed}");
        let json = serde_json::to_string_pretty(&text::to_json(&h, &m, &d)).unwrap();
        assert_eq!(text::from_json(&h, &m, &json).unwrap(), d, "{json}");
    }
}

#[test]
fn every_entry_may_be_free() {
    let (h, m) = (homomorphism("linear_algebra", "matvec"), model("openmp"));
    let free = Decisions::free(&h, &m);
    let printed = text::print(&h, &m, &free);
    assert_eq!(text::parse(&h, &m, &printed).unwrap(), free, "{printed}");
    let some =
        text::parse(&h, &m, "partial tiles\nparts [_ 4] [2 _] [_ _] [1 1] # the rest is tuned\nS3 v L1\n")
            .unwrap();
    assert!(some.partial_tiles);
    assert_eq!(some.parts, [[None, Some(4)], [Some(2), None], [None, None], [Some(1), Some(1)]]);
    assert_eq!(some.operands[1].region, Some(2));
    assert!(some.open() > 30);
    let json = text::to_json(&h, &m, &some).to_string();
    assert_eq!(text::from_json(&h, &m, &json).unwrap(), some);
    let shaped = h.at(&sizes(&[("I", 8), ("K", 16)])).unwrap();
    let mut all = some.clone();
    all.complete_from(&Decisions::plain(&shaped, &m));
    assert_eq!(all.open(), 0);
    assert_eq!(all.parts[1], [Some(2), Some(1)]);
}

#[test]
fn orders_may_be_given_by_position() {
    let (h, m) = (homomorphism("linear_algebra", "dot"), model("toy"));
    let by_rank = text::parse(&h, &m, "D1 [2] [3] [1]").unwrap();
    let by_position = text::parse(&h, &m, "D1 by position [(3,1) (1,1) (2,1)]").unwrap();
    assert_eq!(by_rank, by_position);
    let pairs = text::parse(&h, &m, "D1 [(2,1)] [(3,1)] [(1,1)]").unwrap();
    assert_eq!(by_rank, pairs, "a rank may be written like a level");
}

#[test]
fn what_cannot_be_read_is_refused() {
    let (h, m) = (homomorphism("linear_algebra", "matvec"), model("openmp"));
    let code = |t: &str| match text::parse(&h, &m, t) {
        Ok(_) => panic!("accepted: {t}"),
        Err(d) => d.code,
    };
    for t in [
        "parts [1 2",
        "parts [1 x] [1 1] [1 1] [1 1]",
        "D9 [1 1] [1 1] [1 1] [1 1]",
        "what [1 1]",
        "parts",
        "parts [1 1] and [1 1] [1 1] [1 1]",
        "D1 [0 1] [2 3] [4 5] [6 7]",
        "D1 by position [(1,1) (1,1)]",
        "D2 by position [(1,1)]",
        "D2 [CORx COR.y] [MM.x MM.y] [L2.x L2.y] [L1.x L1.y]",
        "S4 M <1,0>",
        "S4 M <1,b>",
        "decisions on openmp",
    ] {
        assert_eq!(code(t), codes::DECISIONS_FORM, "{t}");
    }
    for t in [
        "parts [1 2]",
        "parts [1 2 3] [1 1 1] [1 1 1] [1 1 1]",
        "D3 Q [MM MM] [MM MM] [MM MM] [MM MM]",
        "D3 [MM MM] [MM MM] [MM MM] [MM MM]",
        "D2 [GPU.x COR.y] [MM.x MM.y] [L2.x L2.y] [L1.x L1.y]",
        "decisions for w on cuda",
        "decisions for other on openmp",
    ] {
        assert_eq!(code(t), codes::DECISIONS_SHAPE, "{t}");
    }
    assert_eq!(code("S3 M SM"), codes::REGION);
    let json = |t: &str| text::from_json(&h, &m, t).unwrap_err().code;
    for t in ["[", "[]", "{\"parts\": 3}", "{\"parts\": [[true]]}", "{\"parts\": [3]}", "{\"D7\": []}"] {
        assert_eq!(json(t), codes::DECISIONS_FORM, "{t}");
    }
    assert_eq!(json("{\"model\": \"cuda\"}"), codes::DECISIONS_SHAPE);
}
