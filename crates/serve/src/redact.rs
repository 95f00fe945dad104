//! Takes out of a text what would tell strangers where somebody works: folders, home names, hosts.

/// A word with its folders taken away: the last part stays, because it names the program or the script.
pub(crate) fn word(word: &str) -> String {
    let (before, value) = match word.split_once('=') {
        Some((flag, value)) if flag.starts_with('-') || !flag.contains('/') => (format!("{flag}="), value),
        Some(_) | None => (String::new(), word),
    };
    let end = value.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    // A slash that stands alone divides.
    if end.is_empty() || !value.contains('/') && !value.starts_with('~') {
        return word.to_owned();
    }
    if value.contains("://") { format!("{before}<address>") } else { format!("{before}<path>/{end}") }
}

/// Every word of a command.
pub(crate) fn command(argv: &[String]) -> String {
    argv.iter().map(|one| text(one)).collect::<Vec<_>>().join(" ")
}

/// Every word of a sentence.
pub(crate) fn text(text: &str) -> String {
    text.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn folders_go_and_names_stay() {
        let argv =
            ["/home/ada/venv/bin/python", "train.py", "--data=/mnt/secret/set", "--lr", "1e-4", "s3://b/x"];
        let told = command(&argv.map(str::to_owned));
        assert_eq!(told, "<path>/python train.py --data=<path>/set --lr 1e-4 <address>");
    }

    #[test]
    fn a_slash_that_divides_is_no_folder() {
        let sum = "one pass over the data is 663 / (2 x 4) = 83 steps";
        assert_eq!(text(sum), sum);
    }

    proptest! {
        #[test]
        fn no_folder_survives(folder in "[a-z]{3,12}", name in "[a-z]{1,8}") {
            let told = text(&format!("cgroup /home/{folder}Q/x/{name} is full"));
            prop_assert!(!told.contains(&format!("{folder}Q")), "{}", told);
        }
    }
}
