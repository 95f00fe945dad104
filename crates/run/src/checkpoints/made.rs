//! Small files as the frameworks write them, for tests.

use std::fmt::Write;

/// A dictionary with one number, as Python's pickle writes it for torch.
pub(crate) fn pickle(key: &str, number: u64) -> Vec<u8> {
    let mut bytes = b"\x80\x02}q\x00(X".to_vec();
    bytes.extend((key.len() as u32).to_le_bytes());
    bytes.extend(key.as_bytes());
    bytes.extend(b"q\x01");
    match number {
        0..256 => bytes.extend([b'K', number as u8]),
        256..65_536 => {
            bytes.push(b'M');
            bytes.extend((number as u16).to_le_bytes());
        }
        65_536..2_147_483_648 => {
            bytes.push(b'J');
            bytes.extend((number as u32).to_le_bytes());
        }
        _ => {
            bytes.extend([0x8a, 6]);
            bytes.extend(&number.to_le_bytes()[..6]);
        }
    }
    bytes.extend(b"X\x0a\x00\x00\x00state_dictq\x02}q\x03u.");
    bytes
}

/// What `torch.save` writes.
pub(crate) fn torch(pickle: &[u8]) -> Vec<u8> {
    zip(&[("archive/data.pkl", pickle), ("archive/data/0", &[1; 64]), ("archive/version", b"3\n")])
}

/// A zip whose files are stored as they are.
pub(crate) fn zip(files: &[(&str, &[u8])]) -> Vec<u8> {
    let (mut bytes, directory) = local_files(files, false);
    let begin = bytes.len() as u32;
    bytes.extend(&directory);
    end_record(&mut bytes, files.len() as u16, directory.len() as u32, begin);
    bytes
}

/// A zip as it is written beyond 4 GiB: every number is said a second time in eight bytes.
pub(crate) fn wide_zip(files: &[(&str, &[u8])]) -> Vec<u8> {
    let (mut bytes, directory) = local_files(files, true);
    let begin = bytes.len() as u64;
    bytes.extend(&directory);
    let wide_at = bytes.len() as u64;
    bytes.extend(0x0606_4b50_u32.to_le_bytes());
    bytes.extend(44_u64.to_le_bytes());
    bytes.extend([0; 12]);
    for number in [files.len() as u64, files.len() as u64, directory.len() as u64, begin] {
        bytes.extend(number.to_le_bytes());
    }
    bytes.extend(0x0706_4b50_u32.to_le_bytes());
    bytes.extend([0; 4]);
    bytes.extend(wide_at.to_le_bytes());
    bytes.extend(1_u32.to_le_bytes());
    end_record(&mut bytes, u16::MAX, u32::MAX, u32::MAX);
    bytes
}

fn local_files(files: &[(&str, &[u8])], wide: bool) -> (Vec<u8>, Vec<u8>) {
    let (mut bytes, mut directory) = (Vec::new(), Vec::new());
    for (name, contents) in files {
        let at = bytes.len() as u64;
        let sizes = (contents.len() as u32).to_le_bytes();
        bytes.extend(b"PK\x03\x04");
        bytes.extend([0; 14]);
        bytes.extend([sizes, sizes].concat());
        bytes.extend((name.len() as u16).to_le_bytes());
        bytes.extend([0; 2]);
        bytes.extend(name.as_bytes());
        bytes.extend(*contents);
        directory.extend(b"PK\x01\x02");
        directory.extend([0; 16]);
        directory.extend(if wide { [0xff; 8] } else { [sizes, sizes].concat().try_into().unwrap() });
        directory.extend((name.len() as u16).to_le_bytes());
        directory.extend(if wide { 28_u16 } else { 0 }.to_le_bytes());
        directory.extend([0; 10]);
        directory.extend(if wide { u32::MAX } else { at as u32 }.to_le_bytes());
        directory.extend(name.as_bytes());
        if wide {
            directory.extend([1, 0, 24, 0]);
            directory
                .extend([contents.len() as u64, contents.len() as u64, at].map(u64::to_le_bytes).concat());
        }
    }
    (bytes, directory)
}

fn end_record(bytes: &mut Vec<u8>, entries: u16, length: u32, begin: u32) {
    bytes.extend(b"PK\x05\x06\0\0\0\0");
    bytes.extend([entries.to_le_bytes(), entries.to_le_bytes()].concat());
    bytes.extend([length.to_le_bytes(), begin.to_le_bytes()].concat());
    bytes.extend([0; 2]);
}

/// Tensors of so many bytes each.
pub(crate) fn safetensors(tensors: &[(&str, u64)]) -> Vec<u8> {
    let mut header = String::from("{\"__metadata__\":{\"format\":\"pt\"}");
    let mut end = 0;
    for (name, bytes) in tensors {
        let _ = write!(
            header,
            ",\"{name}\":{{\"dtype\":\"U8\",\"shape\":[{bytes}],\"data_offsets\":[{end},{}]}}",
            end + bytes
        );
        end += bytes;
    }
    header += "}";
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    file.extend(vec![7; end as usize]);
    file
}

/// An HDF5 file of so many bytes.
pub(crate) fn hdf5(length: u64) -> Vec<u8> {
    let mut file = vec![9; length as usize];
    file[..8].copy_from_slice(b"\x89HDF\r\n\x1a\n");
    file[8] = 0;
    file[13] = 8;
    file[40..48].copy_from_slice(&length.to_le_bytes());
    file
}
