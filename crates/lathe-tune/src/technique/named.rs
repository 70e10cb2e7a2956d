//! Techniques by name, for command lines and files.

use super::{
    Annealing, AucBandit, Bayes, Coordinates, DifferentialEvolution, Exhaustive, Genetic, LocalSearch,
    NelderMead, ParticleSwarm, PatternSearch, PseudoAnnealing, Random, RoundRobin, Technique, Torczon,
    portfolio,
};
use crate::codes;
use lathe_diagnostics::Diagnostic;

/// The names that [`by_name`] knows, the default first.
pub const NAMES: [&str; 16] = [
    "portfolio",
    "auc-bandit",
    "bayes",
    "local-search",
    "genetic",
    "annealing",
    "thesis-annealing",
    "pseudo-annealing",
    "pattern-search",
    "nelder-mead",
    "torczon",
    "differential-evolution",
    "particle-swarm",
    "round-robin",
    "random",
    "exhaustive",
];

/// A technique with its usual settings. Underscores may stand for hyphens.
pub fn by_name(name: &str) -> Result<Box<dyn Technique>, Diagnostic> {
    Ok(match name.replace('_', "-").as_str() {
        "portfolio" => Box::new(portfolio()),
        "auc-bandit" => Box::new(AucBandit::default()),
        "bayes" => Box::new(Bayes::default()),
        "local-search" => Box::new(LocalSearch::default()),
        "genetic" => Box::new(Genetic::default()),
        "annealing" => Box::new(Coordinates::new(Annealing::default())),
        "thesis-annealing" => Box::new(Coordinates::new(Annealing::thesis())),
        "pseudo-annealing" => Box::new(Coordinates::new(PseudoAnnealing::default())),
        "pattern-search" => Box::new(Coordinates::new(PatternSearch::default())),
        "nelder-mead" => Box::new(Coordinates::new(NelderMead::default())),
        "torczon" => Box::new(Coordinates::new(Torczon::default())),
        "differential-evolution" => Box::new(Coordinates::new(DifferentialEvolution::default())),
        "particle-swarm" => Box::new(Coordinates::new(ParticleSwarm::default())),
        "round-robin" => Box::new(RoundRobin::default()),
        "random" => Box::new(Random::default()),
        "exhaustive" => Box::new(Exhaustive::default()),
        _ => {
            return Err(Diagnostic::error(
                codes::TECHNIQUE,
                format!("no search technique is called `{name}`"),
            )
            .help(format!("there are: {}", NAMES.join(", "))));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checklist_19_every_name_is_a_technique() {
        for name in NAMES {
            assert_eq!(by_name(name).map(|t| t.name()), Ok(name.to_string()));
            assert!(by_name(&name.replace('-', "_")).is_ok());
        }
        assert_eq!(by_name("luck").err().map(|d| d.code), Some(codes::TECHNIQUE));
    }
}
