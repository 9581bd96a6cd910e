//! Arrays in one process and between two processes: the same behaviour over both backends.

use shmarray::{Access, Array, DType, Error, Options, Order};

use crate::support::{Peer, scenario, serve};

fn int32() -> DType {
    DType::parse("<i4").unwrap()
}

fn ints(shape: &[u64]) -> Array {
    let array = Array::create(int32(), shape, &Options::default()).unwrap();
    for (number, index) in indices(shape).into_iter().enumerate() {
        array.set(&index, number as i32).unwrap();
    }
    array
}

fn indices(shape: &[u64]) -> Vec<Vec<u64>> {
    let extend = |list: Vec<Vec<u64>>, &count: &u64| -> Vec<Vec<u64>> {
        list.iter()
            .flat_map(|index| (0..count).map(move |at| [&index[..], &[at]].concat()))
            .collect()
    };
    shape.iter().fold(vec![vec![]], extend)
}

fn values(array: &Array) -> Vec<i32> {
    indices(array.shape()).iter().map(|index| array.get::<i32>(index).unwrap()).collect()
}

/// Attaches each handle of a line, answers with the values, and doubles the last element if asked
/// to.
#[test]
#[ignore = "it is another process of the tests"]
fn reader() {
    let mut held: Option<Array> = None;
    serve(|line| match line.split_once(' ') {
        Some(("attach", handle)) => match Array::attach(handle, Access::ReadWrite) {
            Ok(array) => format!("{:?}", values(held.insert(array))),
            Err(error) => error.to_string(),
        },
        Some(("set", value)) => {
            let array = held.as_ref().unwrap();
            let last: Vec<u64> = array.shape().iter().map(|count| count - 1).collect();
            array.set::<i32>(&last, value.parse().unwrap()).unwrap();
            "done".to_owned()
        }
        _ => {
            held = None;
            "closed".to_owned()
        }
    });
}

#[test]
#[cfg_attr(miri, ignore = "it needs another process")]
fn another_process_sees_every_view_and_writes_back() {
    scenario(|| {
        let array = ints(&[4, 3, 2]);
        let views = [
            array.clone(),
            array.transpose(),
            array.slice(0, None, None, -1).unwrap(),
            array.slice(0, Some(1), None, 2).unwrap().slice(2, None, None, -1).unwrap(),
            array.select(0, 2).unwrap().permute(&[1, 0]).unwrap(),
            array.view(&[3, 5], &[4, 0], 8).unwrap(),
            array.view(&[], &[], 92).unwrap(),
            array.slice(1, Some(2), Some(2), 1).unwrap(),
        ];
        let mut peer = Peer::start(reader);
        for view in &views {
            let seen = peer.ask(&format!("attach {}", view.handle()));
            assert_eq!(seen, format!("{:?}", values(view)));
        }
        peer.ask(&format!("attach {}", array.handle()));
        assert_eq!(peer.ask("set -77"), "done");
        assert_eq!(array.get::<i32>(&[3, 2, 1]).unwrap(), -77);
        peer.end();
    });
}

#[test]
#[cfg_attr(miri, ignore = "it needs another process")]
fn an_array_lives_while_any_process_holds_it() {
    scenario(|| {
        let array = ints(&[3]);
        let handle = array.handle();
        let mut peer = Peer::start(reader);
        assert_eq!(peer.ask(&format!("attach {handle}")), "[0, 1, 2]");
        drop(array);
        let again = Array::attach(&handle, Access::ReadOnly).unwrap();
        assert_eq!(values(&again), [0, 1, 2]);
        drop(again);
        assert_eq!(peer.ask("set 9"), "done");
        assert_eq!(peer.ask("close"), "closed");
        assert!(matches!(
            Array::attach(&handle, Access::ReadWrite),
            Err(Error::SegmentNotFound { .. })
        ));
        peer.end();
    });
}

#[test]
fn a_view_outlives_the_array_it_was_taken_from() {
    scenario(|| {
        let array = ints(&[2, 3]);
        let view = array.select(0, 1).unwrap();
        drop(array);
        assert_eq!(values(&view), [3, 4, 5]);
        let handle = view.handle();
        drop(view);
        assert!(Array::attach(&handle, Access::ReadOnly).is_err());
    });
}

#[test]
fn a_name_finds_an_array_until_it_is_unlinked() {
    scenario(|| {
        let named = Options::new().name("camera");
        let array = Array::create(int32(), &[2], &named).unwrap();
        assert!(matches!(Array::create(int32(), &[2], &named), Err(Error::NameExists { .. })));
        let found = Array::attach("camera", Access::ReadWrite).unwrap();
        assert_eq!(found.handle(), array.handle());
        shmarray::unlink("camera").unwrap();
        assert!(matches!(
            Array::attach("camera", Access::ReadWrite),
            Err(Error::NameNotFound { .. })
        ));
        assert!(matches!(shmarray::unlink("camera"), Err(Error::NameNotFound { .. })));
        found.set(&[1], 5i32).unwrap();
        assert_eq!(array.get::<i32>(&[1]).unwrap(), 5);
        let next = Array::create(int32(), &[2], &named).unwrap();
        drop((array, found));
        assert_eq!(Array::attach("camera", Access::ReadOnly).unwrap().handle(), next.handle());
    });
}

#[test]
fn a_name_goes_with_its_last_holder() {
    scenario(|| {
        let named = Options::new().name("camera");
        drop(Array::create(int32(), &[2], &named).unwrap());
        assert!(matches!(
            Array::attach("camera", Access::ReadWrite),
            Err(Error::NameNotFound { .. })
        ));
    });
}

/// Returns the values that another process sees. Under Miri it is this process.
#[cfg(not(portable_backend))]
fn seen_elsewhere(name: &str) -> String {
    if cfg!(miri) {
        return format!("{:?}", values(&Array::attach(name, Access::ReadWrite).unwrap()));
    }
    let mut peer = Peer::start(reader);
    let seen = peer.ask(&format!("attach {name}"));
    peer.end();
    seen
}

#[cfg(not(portable_backend))]
#[test]
fn an_array_that_persists_waits_for_its_name_to_be_unlinked() {
    scenario(|| {
        let options = Options::new().name("model").persist(true);
        let array = Array::create(int32(), &[2], &options).unwrap();
        array.set(&[0], 42i32).unwrap();
        drop(array);
        shmarray::sweep().unwrap();
        assert_eq!(seen_elsewhere("model"), "[42, 0]");
        shmarray::unlink("model").unwrap();
        assert!(Array::attach("model", Access::ReadWrite).is_err());
    });
}

#[cfg(portable_backend)]
#[test]
fn the_portable_backend_refuses_to_persist_before_it_makes_anything() {
    scenario(|| {
        let options = Options::new().name("model").persist(true);
        let refused = Array::create(int32(), &[2], &options).unwrap_err();
        assert!(matches!(refused, Error::Unsupported { .. }), "{refused}");
        assert!(Array::attach("model", Access::ReadWrite).is_err());
        let directory = std::env::var_os("SHMARRAY_DIR").unwrap();
        assert_eq!(std::fs::read_dir(directory).unwrap().count(), 0);
        let again = Array::create(int32(), &[2], &options.persist(false)).unwrap();
        assert_eq!(again.shape(), [2]);
    });
}

#[test]
fn every_dtype_of_the_table_and_items_without_a_meaning_can_be_attached() {
    scenario(|| {
        let opaque = [
            DType::opaque(12).unwrap(),
            DType::parse("<M8[ns]").unwrap(),
            DType::opaque(0).unwrap(),
        ];
        let step = if cfg!(miri) { 5 } else { 1 }; // Miri is slow, and the path is the same
        for dtype in DType::ALL.iter().chain(&opaque).step_by(step) {
            let array = Array::create(dtype.clone(), &[3, 2], &Options::default()).unwrap();
            let again = Array::attach(&array.handle(), Access::ReadOnly).unwrap();
            assert_eq!(again.dtype(), dtype);
            assert_eq!(again.to_bytes().unwrap(), vec![0; 6 * dtype.itemsize() as usize]);
        }
    });
}

#[test]
fn an_array_is_aligned_if_all_its_elements_are() {
    scenario(|| {
        let bytes = Array::create(DType::parse("|u1").unwrap(), &[6, 16], &Options::default());
        let bytes = bytes.unwrap();
        assert!(bytes.is_aligned(1) && !bytes.is_aligned(2));
        let rows = bytes.view(&[6], &[16], 0).unwrap();
        assert!(rows.is_aligned(16) && !rows.is_aligned(32));
        assert!(!bytes.view(&[5], &[16], 8).unwrap().is_aligned(16));
        assert!(bytes.view(&[1], &[3], 16).unwrap().is_aligned(16));
        assert!(bytes.view(&[0], &[3], 3).unwrap().is_aligned(16));
    });
}

#[test]
fn a_shared_copy_keeps_values_whatever_the_strides() {
    scenario(|| {
        let source: Vec<i32> = (0..12).collect();
        let layout = shmarray::Layout::contiguous(&[3, 4], 4, Order::C).unwrap().transpose();
        let before = shmarray::copied_bytes();
        let options = Options::new().order(Order::F);
        #[allow(unsafe_code)]
        // SAFETY: every element can be read, because the layout describes the 12 elements of
        // `source`, which is private.
        let array =
            unsafe { Array::share(source.as_ptr().cast(), int32(), &layout, &options) }.unwrap();
        assert_eq!(shmarray::copied_bytes() - before, 48);
        assert_eq!(array.strides(), [4, 16]);
        assert_eq!(values(&array)[..4], [0, 4, 8, 1]);
        let every_other = array.slice(0, None, None, -2).unwrap();
        let bytes = every_other.to_bytes().unwrap();
        let copied =
            bytes.chunks_exact(4).map(|bytes| i32::from_le_bytes(bytes.try_into().unwrap()));
        assert_eq!(copied.collect::<Vec<_>>(), values(&every_other));
        let mut room = vec![0; bytes.len()];
        every_other.read_into(&mut room).unwrap();
        assert_eq!(room, bytes);
        let error = every_other.read_into(&mut room[1..]).unwrap_err();
        assert!(error.to_string().contains("24 bytes, and there is room for 23"), "{error}");
        let rows = shmarray::Layout::contiguous(every_other.shape(), 4, Order::C).unwrap();
        #[allow(unsafe_code)]
        // SAFETY: every element can be read and none is the array's, because the layout describes
        // the first elements of `source`, which is private.
        unsafe { every_other.fill_from(source.as_ptr().cast(), &rows) }.unwrap();
        assert_eq!(values(&every_other), source[..rows.len() as usize]);
    });
}

#[cfg(feature = "ndarray")]
#[test]
fn an_ndarray_view_is_the_same_memory() {
    scenario(|| {
        let array = ints(&[2, 3]);
        let view = array.transpose().raw_view_mut::<i32>().unwrap();
        #[allow(unsafe_code)]
        // SAFETY: nobody else has this array, and this thread does not use it in another way while
        // the view lives.
        unsafe { view.deref_into_view_mut() }.mapv_inplace(|value| value * 10);
        assert_eq!(values(&array), [0, 10, 20, 30, 40, 50]);
        let view = array.slice(1, Some(1), None, 1).unwrap().raw_view::<i32>().unwrap();
        #[allow(unsafe_code)]
        // SAFETY: nobody else has this array, and nothing writes to it while the view lives.
        let view = unsafe { view.deref_into_view() };
        assert_eq!((view.shape(), view[[1, 1]], view.sum()), (&[2, 2][..], 50, 120));
        assert!(array.raw_view::<f32>().is_err());
        assert!(array.slice(0, None, None, -1).unwrap().raw_view::<i32>().is_err());
    });
}

#[test]
fn memory_knows_its_array() {
    scenario(|| {
        let array = ints(&[4, 4]);
        let inner = array.slice(0, Some(1), Some(3), 1).unwrap().slice(1, None, None, -2).unwrap();
        let found =
            Array::over_memory(inner.as_ptr() as usize, int32(), inner.shape(), inner.strides())
                .unwrap();
        assert_eq!(found.handle(), inner.handle());
        let private = [0i32; 16];
        assert!(Array::over_memory(private.as_ptr() as usize, int32(), &[16], &[4]).is_none());
        assert!(Array::over_memory(array.as_ptr() as usize, int32(), &[17], &[4]).is_none());
    });
}

#[test]
fn arrays_without_elements_know_whose_they_are() {
    scenario(|| {
        let count = if cfg!(miri) { 3 } else { 20 }; // Miri is slow
        let zeros = |shape: &[u64]| Array::create(int32(), shape, &Options::default()).unwrap();
        // Their data ends with a page.
        let full: Vec<_> = (0..count).map(|_| zeros(&[1024])).collect();
        let empty: Vec<_> = (0..count).map(|_| zeros(&[0, 3])).collect();
        let read = |array: &Array| Array::attach(&array.handle(), Access::ReadOnly).unwrap();
        let only: Vec<_> = full.iter().chain(&empty).map(read).collect();
        for array in full.iter().chain(&empty).chain(&only) {
            let none = array.slice(0, Some(array.shape()[0] as i64), None, 1).unwrap();
            let found =
                Array::over_memory(none.as_ptr() as usize, int32(), none.shape(), none.strides())
                    .unwrap();
            assert_eq!(found.descriptor().segment, array.descriptor().segment);
        }
    });
}

#[test]
fn read_only_is_refused_by_the_library() {
    scenario(|| {
        let array = ints(&[2]);
        let only = Array::attach(&array.handle(), Access::ReadOnly).unwrap();
        assert!(only.is_readonly() && !array.is_readonly());
        assert!(matches!(only.set(&[0], 1i32), Err(Error::ReadOnly)));
        assert!(only.slice(0, None, None, -1).unwrap().is_readonly());
        array.set(&[1], 8i32).unwrap();
        assert_eq!(values(&only), [0, 8]);
    });
}

/// Writes through a read-only mapping, which must end this process.
#[test]
#[ignore = "it is another process of the tests"]
fn trespasser() {
    serve(|handle| {
        let array = Array::attach(handle, Access::ReadOnly).unwrap();
        #[allow(unsafe_code)]
        // SAFETY: none: the memory is mapped read-only. The test is about this store, which must
        // fault.
        unsafe {
            array.as_ptr().write_volatile(1);
        }
        "still here".to_owned()
    });
}

#[cfg(unix)]
#[test]
#[cfg_attr(miri, ignore = "it needs another process")]
fn read_only_is_refused_by_the_pages() {
    use std::os::unix::process::ExitStatusExt;
    scenario(|| {
        let array = ints(&[2000]);
        let mut peer = Peer::start(trespasser);
        peer.tell(&array.handle());
        let status = peer.process.wait().unwrap();
        assert!(matches!(status.signal(), Some(11 | 10)), "{status}");
        assert_eq!(array.get::<i32>(&[0]).unwrap(), 0);
        assert_eq!(array.get::<i32>(&[1999]).unwrap(), 1999);
        if cfg!(shmarray_portable) {
            let is_left = leave_no_count_behind(array); // the dead peer's count stays there
            std::process::exit(i32::from(is_left));
        }
    });
}

/// Removes the files on the portable backend, which cannot know that a holder died.
fn leave_no_count_behind(array: Array) -> bool {
    let id = array.descriptor().segment.id;
    drop(array);
    std::fs::remove_file(format!("/dev/shm/shma-{id}")).is_err()
}

#[test]
fn bad_arguments_are_refused_with_their_name() {
    scenario(|| {
        let create = |shape: &[u64], options: Options| {
            Array::create(int32(), shape, &options).unwrap_err().to_string()
        };
        let named = |name: &str| Options::new().name(name);
        assert!(create(&[1 << 40, 1 << 40], Options::default()).contains("shape"));
        assert!(create(&[1; 65], Options::default()).contains("65 dimensions"));
        assert!(create(&[1], named("a/b")).contains("a/b"));
        assert!(create(&[1], named("")).contains("invalid name"));
        assert!(create(&[1], Options::new().persist(true)).contains("persist"));
        assert!(create(&[1], Options::new().mode(0o4600)).contains("mode"));
        let array = ints(&[2, 2]);
        assert!(matches!(array.get::<f32>(&[0, 0]), Err(Error::DTypeMismatch { .. })));
        assert!(array.get::<i32>(&[0]).is_err() && array.get::<i32>(&[2, 0]).is_err());
        assert!(matches!(array.view(&[5], &[4], 0), Err(Error::OutOfBounds { .. })));
        assert!(matches!(
            array.select(0, 1).unwrap().view(&[1], &[4], -4),
            Err(Error::OutOfBounds { .. })
        ));
        assert!(array.view(&[1], &[4], i64::MIN).is_err());
    });
}

#[test]
fn a_handle_that_does_not_fit_its_segment_is_refused() {
    scenario(|| {
        let array = ints(&[4]);
        let good = array.descriptor();
        let attach =
            |handle: &shmarray::Descriptor| Array::attach(&handle.to_handle(), Access::ReadWrite);
        let mut wild = good.clone();
        wild.layout.shape = vec![5];
        assert!(matches!(attach(&wild), Err(Error::InvalidHandle { .. })));
        wild = good.clone();
        wild.layout.strides = vec![-4];
        assert!(matches!(attach(&wild), Err(Error::InvalidHandle { .. })));
        wild = good.clone();
        wild.generation ^= 1;
        assert!(matches!(attach(&wild), Err(Error::StaleHandle { .. })));
        wild = good.clone();
        wild.segment.cell = Some(999);
        assert!(matches!(attach(&wild), Err(Error::InvalidHandle { .. })));
        assert!(matches!(
            Array::attach("nobody", Access::ReadWrite),
            Err(Error::NameNotFound { .. })
        ));
        assert!(matches!(
            Array::attach("no/body", Access::ReadWrite),
            Err(Error::InvalidName { .. })
        ));
        assert_eq!(values(&attach(&good).unwrap()), [0, 1, 2, 3]);
    });
}

/// A stride of zero makes an array of any size from one element, and a handle may say so.
#[cfg(not(miri))] // it ends the program where the system has no memory
#[test]
fn a_copy_that_no_memory_has_room_for_is_an_error() {
    let array = Array::create(DType::parse("<f8").unwrap(), &[1], &Options::default()).unwrap();
    let huge = array
        .handle()
        .replace(r#""shape":[1],"strides":[8]"#, r#""shape":[70368744177664],"strides":[0]"#);
    let huge = Array::attach(&huge, Access::ReadOnly).unwrap();
    assert_eq!(huge.layout().len(), 1 << 46);
    match huge.to_bytes() {
        Err(Error::NoMemory { bytes, .. }) => assert_eq!(bytes, 1 << 49),
        other => panic!("{:?}", other.map(|bytes| bytes.len())),
    }
}

#[cfg(portable_backend)]
#[test]
fn pipes_and_channels_can_be_neither_made_nor_opened_on_the_portable_backend() {
    use shmarray::{
        Channel, ChannelOptions, ChannelStats, Pipe, QueueSlots, QueueTasks, Receives, family,
    };
    fn refused<T>(outcome: shmarray::Result<T>) {
        assert!(matches!(outcome, Err(Error::Unsupported { .. })));
    }
    let options = ChannelOptions::new();
    refused(Pipe::pair());
    #[cfg(unix)]
    refused(Pipe::from_fd(std::fs::File::open(".").unwrap().into()));
    refused(Channel::create("numbers", int32(), &[3], &options));
    refused(Channel::create_by_handle("numbers", &options));
    refused(Channel::open("numbers", Receives::Now));
    refused(Channel::open_within("numbers", Receives::Now, None));
    refused(ChannelStats::read("numbers"));
    refused(QueueSlots::new(1));
    refused(QueueTasks::new());
    refused(family());
}
