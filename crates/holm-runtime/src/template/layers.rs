//! Layers of an image, as the builder is told them.

use std::path::{Path, PathBuf};

use crate::driver::{DriverErrorKind, Root};
use crate::failure::Failure;

/// Those that make a difference, the lowest one first, after a look whether they are there.
pub(crate) fn usable(layers: &[PathBuf]) -> Result<Vec<&Path>, Failure> {
    let layers = distinct(layers);
    if layers.is_empty() || layers.len() > Root::MAX_LAYERS {
        let text = format!(
            "A template has from 1 to {} different layers; this one has {}.",
            Root::MAX_LAYERS,
            layers.len()
        );
        return Err(Failure::of(DriverErrorKind::UnknownTemplate, text));
    }
    for layer in &layers {
        // Not what is in it: nobody on the host looks at that.
        let is_dir = std::fs::symlink_metadata(layer).is_ok_and(|meta| meta.is_dir());
        if !is_dir || !layer.is_absolute() {
            let text = "A layer of the template is not there any more; get the template again.";
            return Err(Failure::of(DriverErrorKind::UnknownTemplate, text)
                .because(format!("layer {}", layer.display())));
        }
    }
    Ok(layers)
}

/// Without those that come again further up, which an overlay refuses: all that such a layer shows
/// or hides, its upper twin shows or hides as well.
fn distinct(layers: &[PathBuf]) -> Vec<&Path> {
    let again = |at: usize| layers[at + 1..].contains(&layers[at]);
    (0..layers.len()).filter(|at| !again(*at)).map(|at| layers[at].as_path()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_twins_the_upper_one_stays() {
        for (given, want) in [("ab", "ab"), ("aba", "ba"), ("aabbab", "ab"), ("", "")] {
            let paths: Vec<_> = given.chars().map(|name| PathBuf::from(name.to_string())).collect();
            let got: String = distinct(&paths).iter().map(|path| path.to_str().unwrap()).collect();
            assert_eq!(got, want, "{given}");
        }
    }

    #[test]
    fn what_cannot_be_a_layer_is_refused_without_its_path() {
        let none = usable(&[]).unwrap_err();
        assert!(none.public.contains("has 0"), "{none:?}");
        let many: Vec<_> = (0..=Root::MAX_LAYERS).map(|n| format!("/{n}").into()).collect();
        assert!(usable(&many).unwrap_err().public.contains("has 129"));
        for path in ["/proc/self/exe", "/nowhere/tree", "relative"] {
            let failure = usable(&["/".into(), path.into()]).unwrap_err();
            assert_eq!(failure.kind, DriverErrorKind::UnknownTemplate);
            assert!(failure.internal.contains(path) && !failure.public.contains(path));
        }
    }
}
