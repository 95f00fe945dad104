//! The live page: all recordings of a folder, read-only, for one user of a machine that others share.
//!
//! Loopback is no border on a login node, so every request carries a token or comes through a socket only its owner can
//! open. Not here: what a page holds (see `page`), how it looks (see `html`).

pub(crate) mod answers;
mod compare;
mod door;
mod follow;
mod guard;
mod library;
mod metrics;
pub(crate) mod pages;
mod shelf;
pub(crate) mod summary;
mod token;

pub use token::Token;

use follow::Followers;
use library::Library;
use metrics::Scraped;
use shelf::Shelf;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where the server listens.
#[derive(Clone, Debug)]
pub enum Listen {
    /// A TCP address; every request needs the token.
    Address(SocketAddr),
    /// A Unix socket that only its owner may open.
    Socket(PathBuf),
}

/// What a server is told.
#[derive(Clone, Debug)]
pub struct Options {
    /// The folder of recordings.
    pub dir: PathBuf,
    /// Where to listen.
    pub listen: Listen,
    /// Names beside localhost under which the page may be asked for.
    pub hosts: Vec<String>,
    /// Where the token is written for programs that scrape; none: the private run folder.
    pub token_file: Option<PathBuf>,
}

/// Where a server can be reached.
#[derive(Clone, Debug)]
pub struct Ready {
    /// The address with the token in it, or the socket.
    pub url: String,
    /// The file with the token.
    pub token_file: Option<PathBuf>,
}

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The folder can't be read.
    #[error("cannot read the folder {}", path.display())]
    Folder {
        /// Which.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// The address is taken or not ours.
    #[error("cannot listen on {at}")]
    Listen {
        /// Where.
        at: String,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// The token could not be made or kept.
    #[error("cannot keep a token in {}", path.display())]
    Token {
        /// Where.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// Threads or timers could not be had.
    #[error("cannot start the server")]
    Start(#[source] std::io::Error),
}

/// Everything a request may need.
#[derive(Debug)]
pub(crate) struct Shop {
    pub(crate) library: Library,
    pub(crate) followers: Followers,
    pub(crate) shelf: Shelf,
    pub(crate) scraped: Scraped,
    pub(crate) token: Option<Token>,
    pub(crate) hosts: Vec<String>,
}

/// Serves until it is told to stop (Ctrl-C or SIGTERM); `ready` is called once it can be reached.
pub fn serve(options: Options, ready: impl FnOnce(&Ready)) -> Result<(), ServeError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(4)
        .enable_all()
        .build()
        .map_err(ServeError::Start)?;
    let ended = runtime.block_on(run(options, ready));
    runtime.shutdown_background();
    ended
}

async fn run(options: Options, ready: impl FnOnce(&Ready)) -> Result<(), ServeError> {
    let library = Library::open(&options.dir)
        .map_err(|source| ServeError::Folder { path: options.dir.clone(), source })?;
    let (door, token) = door::open(&options).await?;
    let shop = Arc::new(Shop {
        library,
        followers: Followers::default(),
        shelf: Shelf::default(),
        scraped: Scraped::default(),
        token: token.as_ref().map(|kept| kept.token.clone()),
        hosts: options.hosts.clone(),
    });
    ready(&Ready { url: door.url(token.as_ref()), token_file: token.as_ref().map(|kept| kept.file.clone()) });
    let keeper = tokio::spawn(library::keep_fresh(Arc::clone(&shop)));
    door.welcome(pages::routes(&shop)).await;
    keeper.abort();
    shop.library.save();
    Ok(())
}

/// The folder for small private files of this user.
pub(crate) fn private_dir() -> PathBuf {
    let set = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    set("XDG_RUNTIME_DIR")
        .map_or_else(|| Path::new("/tmp").join(format!("lowtide-{}", own_uid())), |dir| dir.join("lowtide"))
}

/// The user's number, as the kernel tells it of our own process.
fn own_uid() -> u32 {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata("/proc/self").map_or(0, |found| found.uid())
}
