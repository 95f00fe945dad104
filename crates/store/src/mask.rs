//! Masks what looks like a secret in a command line before it is written down.
//!
//! Names are the best sign (`--token X`, `password=X`), known shapes of keys the second (`hf_...`, `sk-...`). A word too
//! many costs a little reading; a key too few costs somebody an account.

/// What stands in place of a secret.
const MASK: &str = "***";

/// Parts of a name that make its value a secret.
const NAMES: &[&str] = &[
    "token",
    "secret",
    "password",
    "passwd",
    "passphrase",
    "pwd",
    "apikey",
    "accesskey",
    "privatekey",
    "credential",
    "authorization",
    "bearer",
    "webhook",
    "signature",
    "cookie",
    "sessionkey",
    "authkey",
    "encryptionkey",
];

/// Names with such a part that hold numbers or words, as training programs have them.
const HARMLESS: &[&str] = &[
    "tokens",
    "tokenizer",
    "tokenize",
    "tokenization",
    "pertoken",
    "tokentype",
    "padtoken",
    "eostoken",
    "bostoken",
    "unktoken",
    "specialtoken",
    "imagetoken",
    "tokenlength",
    "tokenid",
    "tokencount",
    "tokensize",
];

/// How keys of known services begin, and how long such a word must be to be one.
const SHAPES: &[(&str, usize)] = &[
    ("hf_", 10),
    ("sk-", 12),
    ("sk_", 12),
    ("pk_live", 12),
    ("rk_live", 12),
    ("ghp_", 12),
    ("gho_", 12),
    ("ghs_", 12),
    ("ghu_", 12),
    ("github_pat_", 16),
    ("glpat-", 12),
    ("xoxb-", 12),
    ("xoxp-", 12),
    ("xoxa-", 12),
    ("AKIA", 16),
    ("ASIA", 16),
    ("AIza", 20),
    ("eyJ", 30),
    ("npm_", 12),
    ("pypi-", 16),
    ("r8_", 12),
    ("nvapi-", 12),
    ("wandb_v1_", 16),
    ("ya29.", 16),
    ("dckr_pat_", 16),
];

/// The same arguments, with values that look like secrets masked.
pub fn mask_argv(argv: &[String]) -> Vec<String> {
    let mut next_is_secret = false;
    argv.iter().map(|arg| mask_after(arg, &mut next_is_secret)).collect()
}

fn mask_after(arg: &str, next_is_secret: &mut bool) -> String {
    let told = std::mem::replace(next_is_secret, false);
    if told && !arg.starts_with("--") {
        return MASK.to_owned();
    }
    if arg.starts_with('-') && !arg.contains(['=', ' ', ':']) && is_secret_name(arg) {
        *next_is_secret = true;
        return arg.to_owned();
    }
    if arg.eq_ignore_ascii_case("bearer") {
        *next_is_secret = true;
    }
    mask_text(arg)
}

/// Masks inside one argument, which may be a whole shell line (`sh -c "..."`), a header or an URL.
fn mask_text(text: &str) -> String {
    let mut out = String::new();
    let mut told = false;
    for piece in text.split_inclusive(|c: char| c.is_whitespace() || matches!(c, ';' | '&' | '|' | ',' | '?'))
    {
        let word =
            piece.trim_end_matches(|c: char| c.is_whitespace() || matches!(c, ';' | '&' | '|' | ',' | '?'));
        let tail = &piece[word.len()..];
        if told && !word.is_empty() && !word.starts_with("--") && !word.eq_ignore_ascii_case("bearer") {
            out.push_str(MASK);
            told = false;
        } else {
            told = (told && word.is_empty()) || announces(word);
            out.push_str(&mask_word(word));
        }
        out.push_str(tail);
    }
    out
}

/// Whether the word after this one is a secret: `--token`, `Bearer`, `Authorization:`.
fn announces(word: &str) -> bool {
    let bare = word.trim_matches(['"', '\'']);
    let named = (bare.starts_with('-') || bare.ends_with(':')) && !bare.contains('=');
    bare.eq_ignore_ascii_case("bearer") || (named && is_secret_name(bare.trim_end_matches(':')))
}

fn mask_word(word: &str) -> String {
    if let Some((name, value)) = word.split_once('=')
        && !value.is_empty()
    {
        let value = if is_secret_name(name) { MASK.to_owned() } else { mask_word(value) };
        return format!("{name}={value}");
    }
    if let Some(masked) = mask_url(word) {
        return masked;
    }
    if let Some((name, value)) = word.split_once(':')
        && !value.is_empty()
        && is_secret_name(name)
    {
        return format!("{name}:{MASK}");
    }
    mask_shape(word)
}

/// `scheme://user:pass@host` keeps all but the password; `scheme://key@host` all but the key.
fn mask_url(word: &str) -> Option<String> {
    let (scheme, rest) = word.split_once("://")?;
    let authority_end = rest.find('/').unwrap_or(rest.len());
    let (authority, path) = rest.split_at(authority_end);
    let (user, host) = authority.rsplit_once('@')?;
    let user = match user.split_once(':') {
        Some((name, _)) => format!("{name}:{MASK}"),
        None if user.len() >= 16 => MASK.to_owned(),
        None => user.to_owned(),
    };
    Some(format!("{scheme}://{user}@{host}{path}"))
}

fn mask_shape(word: &str) -> String {
    let bare = word.trim_start_matches(['"', '\'', '(', '[']);
    let lead = &word[..word.len() - bare.len()];
    let looks = |(start, least): &&(&str, usize)| {
        bare.len() >= *least
            && bare.starts_with(start)
            && bare[start.len()..].chars().filter(char::is_ascii_alphanumeric).count() >= 8
            && !bare.contains('/')
    };
    SHAPES.iter().find(looks).map_or_else(|| word.to_owned(), |(start, _)| format!("{lead}{start}{MASK}"))
}

/// Whether what stands under this name is a secret. Dashes, underscores and case do not matter.
fn is_secret_name(name: &str) -> bool {
    // The last parts of a dotted or spaced path name the value: `hub.auth.token`.
    let letters = |text: &str| {
        text.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase()
    };
    let name = letters(name);
    if HARMLESS.iter().any(|word| name.contains(word)) {
        return false;
    }
    NAMES.iter().any(|word| name.contains(word))
        || name == "auth"
        || name.ends_with("key") && name.contains("api")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn mask(line: &[&str]) -> String {
        mask_argv(&line.iter().map(|arg| (*arg).to_owned()).collect::<Vec<_>>()).join(" ")
    }

    #[test]
    fn named_secrets_are_masked_in_every_spelling() {
        for (line, wanted) in [
            (&["train", "--token=abc", "--lr=1"][..], "train --token=*** --lr=1"),
            (&["train", "--api-key", "abc", "--lr", "1"], "train --api-key *** --lr 1"),
            (&["train", "--hf_token", "abc"], "train --hf_token ***"),
            (&["train", "-password", "abc"], "train -password ***"),
            (&["train", "--db.password=abc"], "train --db.password=***"),
            (&["env", "AWS_SECRET_ACCESS_KEY=abc", "python"], "env AWS_SECRET_ACCESS_KEY=*** python"),
            (&["env", "WANDB_API_KEY=abc"], "env WANDB_API_KEY=***"),
            (
                &["sh", "-c", "TOKEN=abc python t.py --token abc; echo"],
                "sh -c TOKEN=*** python t.py --token ***; echo",
            ),
            (&["curl", "-H", "Authorization: Bearer abc.def"], "curl -H Authorization: Bearer ***"),
            (&["curl", "-H", "X-Api-Key:abc"], "curl -H X-Api-Key:***"),
            (&["x", "--token", "--lr", "1"], "x --token --lr 1"),
        ] {
            assert_eq!(mask(line), wanted);
        }
    }

    #[test]
    fn known_shapes_of_keys_are_masked_without_a_name() {
        assert_eq!(mask(&["login", "hf_abcdefghijklmnop"]), "login hf_***");
        assert_eq!(mask(&["x", "--key=sk-proj-abcdefgh12345"]), "x --key=sk-***");
        assert_eq!(mask(&["x", "ghp_0123456789abcdef"]), "x ghp_***");
        assert_eq!(mask(&["x", "postgres://ada:hunter2@db/run"]), "x postgres://ada:***@db/run");
        assert_eq!(
            mask(&["x", "--url=https://ada:h@x.org/a?token=abc&b=1"]),
            "x --url=https://ada:***@x.org/a?token=***&b=1"
        );
        assert_eq!(mask(&["pip", "https://0123456789abcdef0123@host/x"]), "pip https://***@host/x");
    }

    #[test]
    fn what_training_programs_say_of_tokens_stays_readable() {
        let line = [
            "python",
            "train.py",
            "--max-tokens",
            "4096",
            "--tokenizer=qwen",
            "--num_tokens_per_batch=8192",
            "--max_new_tokens",
            "12",
            "--keyboard",
            "us",
            "hf_model.py",
            "--pad-token-id",
            "0",
            "ssh://git@host/x",
            "--task",
            "sk-learn",
            "a:b",
        ];
        assert_eq!(mask(&line), line.join(" "));
    }

    proptest! {
        #[test]
        fn no_text_panics_and_the_count_stays(argv: Vec<String>) {
            prop_assert_eq!(mask_argv(&argv).len(), argv.len());
        }

        #[test]
        fn a_named_secret_never_survives(secret in "[a-zA-Z0-9]{8,40}") {
            let secret = format!("Z{secret}");
            for line in [vec![format!("--token={secret}")], vec!["--password".to_owned(), secret.clone()],
                vec![format!("curl -H 'Authorization: Bearer {secret}'")], vec![format!("https://u:{secret}@h/")]] {
                prop_assert!(!mask_argv(&line).join(" ").contains(&secret), "{:?}", mask_argv(&line));
            }
        }
    }
}
