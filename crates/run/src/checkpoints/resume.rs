//! How a command is started again from a checkpoint.
//!
//! The user's own words win: a template, then `{checkpoint}` in the command, then an argument of a known framework that
//! the command already has. A script that has none of these finds the path in the environment: the agent hands it to
//! Trainer and Lightning, `lowtide.checkpoint()` to a loop of one's own. An argument that the script never had is never
//! added: it might not know it.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// Where a program finds the checkpoint it is to go on from.
pub const CHECKPOINT_VARIABLE: &str = "LOWTIDE_CHECKPOINT";
/// The same, for the agent: to be handed to the framework.
pub const RESUME_VARIABLE: &str = "LOWTIDE_RESUME";

/// How many steps were made before: programs whose steps are counted go on from there.
pub const STEP_VARIABLE: &str = "LOWTIDE_STEP";

const PLACEHOLDER: &[u8] = b"{checkpoint}";
/// Arguments by which scripts of the frameworks take a checkpoint.
const ARGUMENTS: [&str; 4] =
    ["--resume_from_checkpoint", "--resume-from-checkpoint", "--ckpt_path", "--trainer.ckpt_path"];

/// How the job takes a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// The user's template: arguments to add, or a whole command.
    Template(Vec<String>),
    /// `{checkpoint}` in the command.
    Placeholder,
    /// An argument that the command has already.
    Argument(&'static str),
    /// The environment.
    Variables,
}

/// A command that starts again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restart {
    /// Program and arguments.
    pub argv: Vec<OsString>,
    /// Variables to set.
    pub variables: Vec<(&'static str, OsString)>,
}

/// Why a template is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// There is nothing in it.
    #[error("the template for resuming is empty")]
    Empty,
    /// A quote has no end.
    #[error("the template for resuming has a quote that does not end: `{0}`")]
    OpenQuote(String),
    /// It never says where the checkpoint goes.
    #[error("the template for resuming does not contain {{checkpoint}}: `{0}`")]
    NoPlace(String),
}

impl Way {
    /// How this command takes a checkpoint; `template` is what the user said about it.
    pub fn of(command: &[OsString], template: Option<&str>) -> Result<Self, TemplateError> {
        if let Some(template) = template {
            return words(template).map(Self::Template);
        }
        if command.iter().any(|part| place(part).is_some()) {
            return Ok(Self::Placeholder);
        }
        let known =
            ARGUMENTS.into_iter().find(|name| command.iter().any(|part| value_of(part, name).is_some()));
        Ok(known.map_or(Self::Variables, Self::Argument))
    }

    /// The command for the next life; without a checkpoint, for the first one.
    pub fn command(&self, command: &[OsString], checkpoint: Option<&Path>) -> Restart {
        let Some(checkpoint) = checkpoint else {
            return Restart { argv: without_place(command), variables: Vec::new() };
        };
        let path = checkpoint.as_os_str();
        let mut variables = vec![(CHECKPOINT_VARIABLE, path.to_owned())];
        let argv = match self {
            Self::Template(template) => from_template(command, template, path),
            Self::Placeholder => command.iter().map(|part| filled(part, path)).collect(),
            Self::Argument(name) => with_argument(command, name, path),
            Self::Variables => {
                variables.push((RESUME_VARIABLE, path.to_owned()));
                command.to_vec()
            }
        };
        Restart { argv, variables }
    }
}

/// Arguments to add to the command, or a command of its own.
fn from_template(command: &[OsString], template: &[String], path: &OsStr) -> Vec<OsString> {
    let filled = template.iter().map(|word| filled(OsStr::new(word), path));
    if template.first().is_some_and(|word| word.starts_with('-')) {
        without_place(command).into_iter().chain(filled).collect()
    } else {
        filled.collect()
    }
}

/// The first life has no checkpoint: the argument that would name one is left out, with the option right before it.
fn without_place(command: &[OsString]) -> Vec<OsString> {
    let is_option = |part: &OsString| part.as_bytes().starts_with(b"-") && !part.as_bytes().contains(&b'=');
    let is_place = |part: &OsString| part.as_bytes() == PLACEHOLDER;
    let names_one = |at: usize| is_option(&command[at]) && command.get(at + 1).is_some_and(is_place);
    let kept = command.iter().enumerate().filter(|(at, part)| place(part).is_none() && !names_one(*at));
    kept.map(|(_, part)| part.clone()).collect()
}

fn with_argument(command: &[OsString], name: &str, path: &OsStr) -> Vec<OsString> {
    let mut argv: Vec<OsString> = Vec::new();
    let mut parts = command.iter().peekable();
    while let Some(part) = parts.next() {
        match value_of(part, name) {
            Some(Value::Inside) => {
                let mut joined = OsString::from(name);
                joined.push("=");
                joined.push(path);
                argv.push(joined);
            }
            Some(Value::Behind) => {
                argv.extend([part.clone(), path.to_owned()]);
                // Its old value, if it had one.
                parts.next_if(|next| !next.as_bytes().starts_with(b"--"));
            }
            None => argv.push(part.clone()),
        }
    }
    argv
}

enum Value {
    Inside,
    Behind,
}

fn value_of(part: &OsStr, name: &str) -> Option<Value> {
    let rest = part.as_bytes().strip_prefix(name.as_bytes())?;
    match rest.first() {
        None => Some(Value::Behind),
        Some(b'=') => Some(Value::Inside),
        Some(_) => None,
    }
}

fn place(part: &OsStr) -> Option<usize> {
    part.as_bytes().windows(PLACEHOLDER.len()).position(|piece| piece == PLACEHOLDER)
}

/// A part of a command with the path in place of every `{checkpoint}`.
fn filled(part: &OsStr, path: &OsStr) -> OsString {
    let mut bytes = Vec::new();
    let mut rest = part;
    while let Some(at) = place(rest) {
        bytes.extend_from_slice(&rest.as_bytes()[..at]);
        bytes.extend_from_slice(path.as_bytes());
        rest = OsStr::from_bytes(&rest.as_bytes()[at + PLACEHOLDER.len()..]);
    }
    bytes.extend_from_slice(rest.as_bytes());
    OsString::from_vec(bytes)
}

/// Splits a template as a shell would: blanks part words, quotes keep them together.
fn words(template: &str) -> Result<Vec<String>, TemplateError> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    let mut letters = template.chars();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(open), _) if open == letter => quote = None,
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None | Some('"'), '\\') => word.get_or_insert_default().extend(letters.next()),
            (None, _) if letter.is_whitespace() => words.extend(word.take()),
            (_, letter) => word.get_or_insert_default().push(letter),
        }
    }
    if quote.is_some() {
        return Err(TemplateError::OpenQuote(template.to_owned()));
    }
    words.extend(word);
    if words.is_empty() {
        return Err(TemplateError::Empty);
    }
    let named = words.iter().any(|word| place(OsStr::new(word)).is_some());
    if named { Ok(words) } else { Err(TemplateError::NoPlace(template.to_owned())) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn command(text: &str) -> Vec<OsString> {
        text.split(' ').map(OsString::from).collect()
    }

    fn started(text: &str, template: Option<&str>, checkpoint: Option<&str>) -> (String, usize) {
        let command = command(text);
        let way = Way::of(&command, template).unwrap();
        let restart = way.command(&command, checkpoint.map(Path::new));
        let argv: Vec<String> = restart.argv.iter().map(|part| part.to_string_lossy().into_owned()).collect();
        (argv.join(" "), restart.variables.len())
    }

    #[test]
    fn a_placeholder_is_filled_wherever_it_stands_and_left_out_of_the_first_life() {
        let job = "python train.py --from {checkpoint} --name=run --init={checkpoint}/model";
        let next = "python train.py --from out/c-4 --name=run --init=out/c-4/model";
        assert_eq!(started(job, None, Some("out/c-4")), (next.into(), 1));
        assert_eq!(started(job, None, None), ("python train.py --name=run".into(), 0));
        assert_eq!(started("./train {checkpoint} -v", None, None).0, "./train -v");
    }

    #[test]
    fn an_argument_that_the_command_has_is_changed_and_none_is_added() {
        let next = |job| started(job, None, Some("out/checkpoint-8")).0;
        assert_eq!(
            next("python run.py --resume_from_checkpoint out/checkpoint-4 --lr 1"),
            "python run.py --resume_from_checkpoint out/checkpoint-8 --lr 1"
        );
        assert_eq!(
            next("python cli.py fit --ckpt_path=last --lr 1"),
            "python cli.py fit --ckpt_path=out/checkpoint-8 --lr 1"
        );
        assert_eq!(
            next("python run.py --resume_from_checkpoint --lr 1"),
            "python run.py --resume_from_checkpoint out/checkpoint-8 --lr 1"
        );
        assert_eq!(next("python train.py --ckpt_pathology 3"), "python train.py --ckpt_pathology 3");
    }

    #[test]
    fn a_script_without_an_argument_finds_the_path_in_the_environment() {
        let command = command("python train.py");
        let way = Way::of(&command, None).unwrap();
        let restart = way.command(&command, Some(Path::new("/out/c-4")));
        assert_eq!(restart.argv, command);
        let wanted = [(CHECKPOINT_VARIABLE, "/out/c-4".into()), (RESUME_VARIABLE, "/out/c-4".into())];
        assert_eq!(restart.variables, wanted);
        assert_eq!(way.command(&command, None).variables, []);
    }

    #[test]
    fn a_template_adds_arguments_or_is_the_command() {
        let job = "python train.py --lr 1";
        assert_eq!(
            started(job, Some("--load '{checkpoint}'"), Some("a b")).0,
            "python train.py --lr 1 --load a b"
        );
        assert_eq!(
            started(job, Some("python resume.py \"{checkpoint}\" --strict\\ ly"), Some("/c")).0,
            "python resume.py /c --strict ly"
        );
        let wrong = |template| Way::of(&command(job), Some(template)).unwrap_err();
        assert_eq!(wrong(" "), TemplateError::Empty);
        assert_eq!(wrong("'a {checkpoint}"), TemplateError::OpenQuote("'a {checkpoint}".into()));
        assert_eq!(
            wrong("--resume").to_string(),
            "the template for resuming does not contain {checkpoint}: `--resume`"
        );
    }

    #[test]
    fn only_the_option_right_before_a_place_goes_with_it() {
        let command: Vec<OsString> =
            ["run", "--ckpt_path", "--ckpt_path", "{checkpoint}", "{checkpoint}"].map(OsString::from).into();
        assert_eq!(without_place(&command), ["run", "--ckpt_path"]);
    }

    proptest! {
        #[test]
        fn no_part_is_lost_but_the_one_that_names_a_checkpoint(
            parts in proptest::collection::vec(
                proptest::sample::select(vec![
                    "a", "--b", "--c=1", "{checkpoint}", "x={checkpoint}", "--ckpt_path", "--ckpt_path=last", "",
                ]),
                0..8,
            ),
            template in "[-a-z{} '\"\\\\]{0,40}",
        ) {
            let command: Vec<OsString> = parts.iter().map(OsString::from).collect();
            let _ = Way::of(&command, Some(&template));
            let way = Way::of(&command, None).unwrap();
            let first = way.command(&command, None).argv;
            let named = |at: usize| parts.get(at).is_some_and(|part| part.contains("{checkpoint}"));
            let kept = (0..parts.len()).filter(|at| !named(*at) && !named(at + 1)).count();
            prop_assert!(first.len() >= kept);
            prop_assert!(first.iter().all(|part| place(part).is_none()));
            let next = way.command(&command, Some(Path::new("/c"))).argv;
            prop_assert!(next.iter().all(|part| place(part).is_none()));
            if !matches!(way, Way::Argument(_)) {
                prop_assert_eq!(next.len(), command.len());
            }
        }
    }
}
