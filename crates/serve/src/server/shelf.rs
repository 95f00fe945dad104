//! The pages opened last: one reading for one state of a file, however many ask for it at once.
//!
//! Reading and judging a long run takes a moment and memory; five hundred people who open the same page must not cost
//! that five hundred times. What is kept is thinned for drawing, so the shelf stays small.

use super::library::Content;
use super::summary::Judged;
use crate::page::Page;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::OnceCell;

/// Pages kept.
const MOST: usize = 8;

/// A page, or why there is none.
type Opened = Result<Arc<Page>, String>;

#[derive(Debug)]
struct Place {
    id: String,
    content: Content,
    page: Arc<OnceCell<Opened>>,
}

/// The newest last.
#[derive(Debug, Default)]
pub(crate) struct Shelf {
    places: Mutex<VecDeque<Place>>,
}

impl Shelf {
    /// The page of a run in this state; the first who asks waits for it to be made, the others wait with them.
    pub(crate) async fn open(&self, id: &str, path: PathBuf, content: Content) -> Opened {
        let place = self.place(id, content);
        let name = id.to_owned();
        let made = place.get_or_init(async || {
            let read = move || Judged::read(&path).map(|judged| Arc::new(judged.page(&name)));
            match tokio::task::spawn_blocking(read).await {
                Ok(Ok(page)) => Ok(page),
                Ok(Err(error)) => Err(error.to_string()),
                Err(_) => Err("it could not be read".to_owned()),
            }
        });
        made.await.clone()
    }

    fn place(&self, id: &str, content: Content) -> Arc<OnceCell<Opened>> {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = places.iter().find(|place| place.id == id && place.content == content) {
            return Arc::clone(&known.page);
        }
        // An older state of the same run is asked for no more.
        places.retain(|place| place.id != id);
        if places.len() >= MOST {
            places.pop_front();
        }
        let page = Arc::default();
        places.push_back(Place { id: id.to_owned(), content, page: Arc::clone(&page) });
        page
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_state_of_a_file_is_read_once_and_a_new_one_anew() {
        let runtime = tokio::runtime::Builder::new_multi_thread().build().unwrap();
        let shelf = Shelf::default();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("x.tide");
        std::fs::write(&file, "no recording").unwrap();
        let content = Content::of(&file).unwrap();
        let open = |id: &str| runtime.block_on(shelf.open(id, file.clone(), content));
        let first = open("x").err();
        assert!(first.is_some());
        std::fs::remove_file(&file).unwrap();
        assert_eq!(open("x").err(), first, "not read again");
        for n in 0..2 * MOST {
            assert!(open(&n.to_string()).is_err());
        }
        assert_eq!(shelf.places.lock().unwrap().len(), MOST);
    }
}
