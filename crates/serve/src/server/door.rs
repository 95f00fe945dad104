//! Listens, and keeps slow, endless and too many visitors from hurting anybody: limits on headers, time and count.

use super::token::{Kept, Token};
use super::{Listen, Options, ServeError, private_dir};
use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::Semaphore;

/// Connections at once; more wait at the kernel's door.
const MOST_CONNECTIONS: usize = 1024;
/// Descriptors for everything else: recordings that are read, their logs, the folder.
const KEPT_BACK: u64 = 128;
/// Room for the head of a request.
const HEAD_BYTES: usize = 16 * 1024;
/// A client that takes longer to say what it wants is sent away.
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) enum Door {
    Tcp(TcpListener, SocketAddr),
    Unix(UnixListener, PathBuf),
}

/// Opens the door, with a token where it is one that others can walk up to.
pub(super) async fn open(options: &Options) -> Result<(Door, Option<Kept>), ServeError> {
    match &options.listen {
        Listen::Address(address) => {
            let failed = |source| ServeError::Listen { at: address.to_string(), source };
            let listener = TcpListener::bind(address).await.map_err(failed)?;
            let at = listener.local_addr().map_err(failed)?;
            let file = options.token_file.clone();
            let file = file.unwrap_or_else(|| private_dir().join(format!("serve-{}.token", at.port())));
            let kept = Token::keep(&file).map_err(|source| ServeError::Token { path: file, source })?;
            Ok((Door::Tcp(listener, at), Some(kept)))
        }
        Listen::Socket(path) => {
            let failed = |source| ServeError::Listen { at: path.display().to_string(), source };
            let listener = closed_socket(path).map_err(failed)?;
            Ok((Door::Unix(listener, path.clone()), None))
        }
    }
}

/// A socket that is 0600 from its first moment on: it is made in a folder of its own and moved into place.
fn closed_socket(path: &Path) -> std::io::Result<UnixListener> {
    if std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket()) {
        std::fs::remove_file(path)?;
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let nest = parent.join(format!(".lowtide-{}", std::process::id()));
    std::os::unix::fs::DirBuilderExt::mode(&mut std::fs::DirBuilder::new(), 0o700).create(&nest)?;
    let made = nest.join("s");
    let bound = UnixListener::bind(&made).and_then(|listener| {
        std::fs::set_permissions(&made, std::fs::Permissions::from_mode(0o600))?;
        // A link never replaces a file that is there.
        std::fs::hard_link(&made, path)?;
        Ok(listener)
    });
    let _ = std::fs::remove_file(&made);
    let _ = std::fs::remove_dir(&nest);
    bound
}

impl Door {
    pub(super) fn url(&self, kept: Option<&Kept>) -> String {
        match (self, kept) {
            (Self::Tcp(_, at), Some(kept)) => format!("http://{at}/?token={}", kept.token.text()),
            (Self::Tcp(_, at), None) => format!("http://{at}/"),
            (Self::Unix(_, path), _) => path.display().to_string(),
        }
    }

    /// Lets visitors in until somebody says stop.
    pub(super) async fn welcome(self, router: Router) {
        let room = Arc::new(Semaphore::new(connections()));
        let stop = stopped();
        tokio::pin!(stop);
        loop {
            // Being told to stop is heard also while there is no room.
            let next = async {
                let place = Arc::clone(&room).acquire_owned().await.ok()?;
                Some((place, self.next().await))
            };
            let router = router.clone();
            tokio::select! {
                () = &mut stop => break,
                came = next => match came {
                    Some((place, Visitor::Tcp(stream))) => {
                        let talk = talk(TokioIo::new(stream), router);
                        tokio::spawn(async move { talk.await; drop(place); });
                    }
                    Some((place, Visitor::Unix(stream))) => {
                        let talk = talk(TokioIo::new(stream), router);
                        tokio::spawn(async move { talk.await; drop(place); });
                    }
                    // Out of descriptors: those who are in may leave meanwhile.
                    Some((_, Visitor::None)) => tokio::time::sleep(Duration::from_millis(100)).await,
                    None => break,
                },
            }
        }
        if let Self::Unix(_, path) = &self {
            let _ = std::fs::remove_file(path);
        }
    }

    async fn next(&self) -> Visitor {
        match self {
            Self::Tcp(listener, _) => {
                listener.accept().await.map_or(Visitor::None, |(stream, _)| Visitor::Tcp(stream))
            }
            Self::Unix(listener, _) => {
                listener.accept().await.map_or(Visitor::None, |(stream, _)| Visitor::Unix(stream))
            }
        }
    }
}

/// How many visitors there is room for. The usual soft limit of 1,024 descriptors is raised: with visitors in all of
/// them no recording could be opened.
fn connections() -> usize {
    let wanted = MOST_CONNECTIONS as u64 + KEPT_BACK;
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return MOST_CONNECTIONS };
    let raised = wanted.clamp(soft.min(hard), hard);
    let there = if setrlimit(Resource::RLIMIT_NOFILE, raised, hard).is_ok() { raised } else { soft };
    usize::try_from(there.saturating_sub(KEPT_BACK))
        .map_or(MOST_CONNECTIONS, |left| left.clamp(1, MOST_CONNECTIONS))
}

enum Visitor {
    Tcp(tokio::net::TcpStream),
    Unix(tokio::net::UnixStream),
    None,
}

async fn talk<I>(io: TokioIo<I>, router: Router)
where
    I: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let service = TowerToHyperService::new(router);
    let mut talk = http1::Builder::new();
    talk.timer(TokioTimer::new()).header_read_timeout(PATIENCE).max_buf_size(HEAD_BYTES).half_close(false);
    // A visitor who hangs up in the middle is no failure of ours.
    let _ = talk.serve_connection(io, service).await;
}

/// Ctrl-C or SIGTERM.
async fn stopped() {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut term), Ok(mut int)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return std::future::pending().await;
    };
    tokio::select! { _ = term.recv() => {}, _ = int.recv() => {} }
}
