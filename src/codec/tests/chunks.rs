//! Chunks: what is saved in pieces is whole, in order, and no longer than may be read.

use super::*;

#[test]
fn chunks_are_short_whole_and_in_order() {
    let mut random = Random::new();
    let seed = random.seed;
    let mut writer = ChunkWriter::new();
    for round in 0..random.steps / 10_000 {
        let effects: Vec<_> = (0..random.below(300)).map(|_| random.effect()).collect();
        let mut chunks: Vec<Vec<u8>> = Vec::new();
        for effect in &effects {
            chunks.extend(writer.push(effect).map(<[u8]>::to_vec));
        }
        chunks.extend(writer.finish().map(<[u8]>::to_vec));
        assert_eq!(writer.finish(), None, "seed {seed} round {round}");
        let mut back = Vec::new();
        for (at, chunk) in chunks.iter().enumerate() {
            let found = decode_chunk(2, chunk).unwrap();
            assert!(
                chunk.len() <= CHUNK_BYTES || found.len() == 1,
                "seed {seed} round {round}"
            );
            if let Some(next) = chunks.get(at + 1) {
                // It was cut because the next effect found no room.
                let first = decode(2, next).unwrap().remove(0);
                assert!(chunk.len() + blob(&first).len() > CHUNK_BYTES);
            }
            back.extend(found);
        }
        assert_eq!(back, effects, "seed {seed} round {round}");
    }
}

#[test]
fn a_chunk_holds_no_more_effects_than_are_read() {
    let mut writer = ChunkWriter::new();
    let mut counts = Vec::new();
    for _ in 0..=2 * EFFECTS_MAX {
        let chunk = writer.push(&Effect::Floor(7));
        counts.extend(chunk.map(|chunk| decode_chunk(2, chunk).unwrap().len()));
    }
    counts.extend(
        writer
            .finish()
            .map(|chunk| decode_chunk(2, chunk).unwrap().len()),
    );
    assert_eq!(counts, [EFFECTS_MAX, EFFECTS_MAX, 1]);
}

#[test]
fn a_chunk_is_filled_to_its_last_byte() {
    // One effect of exactly so many bytes.
    let sized = |bytes: usize| {
        let status = |payload: usize| Effect::Status {
            id: Bytes::of(b"x"),
            rev: 1,
            status: Bytes::of(b""),
            payload: Some(Bytes::copied(&vec![b'p'; payload])),
            ends_grant: false,
        };
        let effect = status(bytes - (blob(&status(1000)).len() - 1000));
        assert_eq!(blob(&effect).len(), bytes);
        effect
    };
    for (first, second, together) in [
        (1000, CHUNK_BYTES - 1000, true),
        (1000, CHUNK_BYTES - 999, false),
        (1000, CHUNK_BYTES, false),
        (CHUNK_BYTES, 1000, false),
    ] {
        let mut writer = ChunkWriter::new();
        assert_eq!(writer.push(&sized(first)), None);
        let cut = writer.push(&sized(second)).map(<[u8]>::len);
        assert_eq!(cut, (!together).then_some(first), "{first} {second}");
        let last = if together { first + second } else { second };
        assert_eq!(writer.finish().map(<[u8]>::len), Some(last));
    }
}
