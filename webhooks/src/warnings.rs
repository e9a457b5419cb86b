//! Decides how many warnings are sent and how long each of them is.
//! Never lets one warning crowd out the news that there were more.

use crate::cause::more;

/// Characters Kubernetes keeps of a warning.
const EACH: usize = 256;
/// Characters Kubernetes keeps of all warnings together.
const TOTAL: usize = 4096;

/// Warnings as Kubernetes delivers them whole: each once, in one line, none too long, and all together not too many.
pub(crate) fn within_limits(warnings: impl ExactSizeIterator<Item = String>) -> Vec<String> {
    let mut kept: Vec<String> = Vec::new();
    let mut left = TOTAL - EACH;
    let all = warnings.len();
    for (index, warning) in warnings.enumerate() {
        let warning = cut(&warning);
        if kept.contains(&warning) {
            continue;
        }
        let length = warning.chars().count();
        if length > left {
            kept.push(format!("{}; coder-k8s lint shows all of them", more(all - index)));
            break;
        }
        left -= length;
        kept.push(warning);
    }
    kept
}

fn cut(warning: &str) -> String {
    let line: String = warning.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    if line.chars().count() <= EACH {
        return line;
    }
    line.chars().take(EACH - 3).chain("...".chars()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_stay_within_the_limits_of_kubernetes() {
        let many: Vec<String> = (0..500).map(|n| format!("warning {n} {}", "x".repeat(n))).collect();
        let kept = within_limits(many.into_iter());
        assert!(kept.iter().all(|warning| warning.chars().count() <= EACH));
        assert!(kept.iter().map(|warning| warning.chars().count()).sum::<usize>() <= TOTAL);
        assert!(kept.last().unwrap().starts_with("and "), "{:?}", kept.last());
    }

    #[test]
    fn a_warning_is_one_line_and_comes_once() {
        let kept = within_limits(["a\nb".to_owned(), "a\nb".to_owned(), "ä".repeat(300)].into_iter());
        assert_eq!(kept.len(), 2);
        assert_eq!(kept[0], "a b");
        assert_eq!(kept[1].chars().count(), EACH);
    }
}
