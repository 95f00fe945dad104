//! The token: made anew at every start, kept in a file only its owner can read, compared in constant time.

use std::fmt::Write as _;
use std::fs::{DirBuilder, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// Random bytes in a token.
const BYTES: usize = 32;

/// What a request must bring.
#[derive(Clone)]
pub struct Token(String);

impl std::fmt::Debug for Token {
    /// Never into a log.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(..)")
    }
}

/// A token and the file it lies in; the file goes with it.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) token: Token,
    pub(super) file: PathBuf,
}

impl Drop for Kept {
    fn drop(&mut self) {
        // A new start makes a new one; a file that is gone already is no matter.
        let _ = std::fs::remove_file(&self.file);
    }
}

impl Token {
    fn new() -> std::io::Result<Self> {
        let mut bytes = [0_u8; BYTES];
        std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        let mut text = String::new();
        for byte in bytes {
            let _ = write!(text, "{byte:02x}");
        }
        Ok(Self(text))
    }

    /// Makes one and writes it down, mode 0600, in a folder that is closed to others.
    pub(super) fn keep(file: &Path) -> std::io::Result<Kept> {
        let token = Self::new()?;
        if let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
            refuse_foreign(folder)?;
        }
        // Never through a link, never into a file somebody else prepared.
        let _ = std::fs::remove_file(file);
        let mut out = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)?;
        out.write_all(token.0.as_bytes())?;
        Ok(Kept { token, file: file.to_owned() })
    }

    /// The text, for the address that is printed once.
    pub(super) fn text(&self) -> &str {
        &self.0
    }

    /// Whether it is the same. Every byte is looked at, whatever the first ones are.
    pub(crate) fn is(&self, told: &str) -> bool {
        let (own, told) = (self.0.as_bytes(), told.as_bytes());
        let different = own.iter().zip(told.iter().chain(std::iter::repeat(&0)));
        let bits = different.fold(own.len() ^ told.len(), |bits, (a, b)| bits | usize::from(a ^ b));
        std::hint::black_box(bits) == 0
    }
}

/// A folder of another user, or one that others may write into, is no place for a secret.
fn refuse_foreign(folder: &Path) -> std::io::Result<()> {
    let found = std::fs::symlink_metadata(folder)?;
    let ours = found.uid() == super::own_uid() && found.is_dir();
    let open = found.permissions().mode() & 0o022 != 0 && found.permissions().mode() & 0o1000 == 0;
    if ours && !open {
        return Ok(());
    }
    Err(std::io::Error::new(
        std::io::ErrorKind::PermissionDenied,
        "others may write into its folder, or own it",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_token_is_the_token() {
        let token = Token::new().unwrap();
        let text = token.text().to_owned();
        assert_eq!(text.len(), 2 * BYTES);
        assert!(token.is(&text));
        for other in [
            "",
            &text[1..],
            &format!("{text}0"),
            &text.to_uppercase().replace(|c: char| c.is_ascii_digit(), "f"),
        ] {
            assert!(!token.is(other), "{other}");
        }
        assert_ne!(Token::new().unwrap().text(), text);
        assert!(!format!("{token:?}").contains(&text[..8]));
    }

    #[test]
    fn its_file_is_closed_to_others_and_goes_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("deep/serve.token");
        let kept = Token::keep(&file).unwrap();
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::metadata(file.parent().unwrap()).unwrap().permissions().mode() & 0o777, 0o700);
        drop(kept);
        assert!(!file.exists());
    }
}
