//! What was encoded is decoded as it was, and byte strings are not copied.

use super::*;

#[test]
fn generated_effects_come_back_as_they_were() {
    let mut random = Random::new();
    let seed = random.seed;
    let mut blob = Vec::new();
    for step in 0..random.steps / 100 {
        let effects: Vec<_> = (0..random.below(6)).map(|_| random.effect()).collect();
        blob.clear();
        for effect in &effects {
            encode(effect, &mut blob).unwrap();
        }
        assert_eq!(
            decode(2, &blob).as_ref(),
            Ok(&effects),
            "seed {seed} step {step}"
        );
    }
}

#[test]
fn byte_strings_are_borrowed() {
    for (name, effect) in samples() {
        let blob = blob(&effect);
        let span = blob.as_ptr_range();
        let inside = |bytes: &Bytes<'_>| span.contains(&bytes.as_ptr()) || bytes.is_empty();
        match decode(2, &blob).unwrap().remove(0) {
            Effect::Schedule {
                id,
                status,
                payload,
                ..
            } => {
                assert!(
                    [Some(id), status, payload].iter().flatten().all(inside),
                    "{name}"
                );
            }
            Effect::Claim { owner, grants, .. } => {
                assert!(
                    inside(&owner) && grants.iter().all(|grant| inside(&grant.id)),
                    "{name}"
                );
            }
            Effect::Forget { ids } => assert!(ids.iter().all(inside), "{name}"),
            _ => {}
        }
    }
}
