# frozen_string_literal: true

require_relative "npy_helper"

# The same files as NumPy's own, byte for byte, in both directions.
class NpyWithNumpyTest < SharedMemoryTest
  include NpyFiles

  PYTHON = %w[python python3].find do |name|
    system(name, "-c", "import numpy", out: File::NULL, err: File::NULL)
  end

  def setup
    skip "no Python with NumPy is installed" unless PYTHON
  end

  def python(script)
    output, status = Open3.capture2e(PYTHON, "-c", "import numpy as np\n#{script}",
                                     chdir: ENV.fetch("SHMARRAY_DIR"))
    assert status.success?, output
    output
  end

  # Skips a test that compares whole archives.
  def needs_todays_zip_headers
    return if python("import sys; print(sys.version_info >= (3, 11, 4))") == "True\n"

    skip "Python before 3.11.4 writes other ZIP headers"
  end

  def read(name)
    File.binread(path(name))
  end

  DTYPES = Shmarray::DTYPES.grep(/\A[<|]/) + [">i2", ">f8", "<M8[ns]", "|S3", "<U2"]

  def test_npy_files_are_numpys_byte_for_byte
    python(<<~PYTHON)
      for n, d in enumerate(#{DTYPES.inspect}):
          size = np.dtype(d).itemsize * 6
          data = bytes(at % 2 if d == "|b1" else at * 37 % 251 for at in range(size))
          if d == "<U2":
              data = np.array(["ab", "c", "", "é", "x", "yz"], d).tobytes()
          a = np.frombuffer(data, d).reshape(2, 3)
          np.save(f"c{n}.npy", a)
          np.save(f"f{n}.npy", a.T)
          np.save(f"s{n}.npy", a[:, ::2])
    PYTHON
    DTYPES.each_index do |n|
      a = Shmarray.load_npy(path("c#{n}.npy"))
      assert_equal [DTYPES[n], [2, 3]], [a.dtype, a.shape]
      assert_equal read("c#{n}.npy").b[-a.to_bytes.bytesize..], a.to_bytes
      assert_equal read("c#{n}.npy"), saved(a)
      assert_equal read("f#{n}.npy"), saved(a.transpose), DTYPES[n]
      assert_equal read("s#{n}.npy"), saved(a[true, (0..) % 2]), DTYPES[n]
      assert_equal a.transpose.to_bytes, Shmarray.load_npy(path("f#{n}.npy")).to_bytes
    end
  end

  def test_stored_npz_files_are_numpys_byte_for_byte
    needs_todays_zip_headers
    python(<<~PYTHON)
      a = np.arange(6, dtype="<i4").reshape(2, 3)
      b = np.array(2.5)
      np.savez("one.npz", a, b, x=a.T, **{"a b": b})
    PYTHON
    a = Shmarray::Array.create(:int32, [2, 3])
    a[nil] = [[0, 1, 2], [3, 4, 5]]
    b = Shmarray::Array.create(:float64, []).fill(2.5)
    assert_equal read("one.npz"), zipped(a, b, { "a b" => b }, x: a.transpose)
    all = Shmarray.load_npz(path("one.npz"), verify: true, &:to_h)
    assert_equal ["x", "a b", "arr_0", "arr_1"], all.keys
    assert_equal [a.transpose, b, a, b], all.values
  end

  def test_deflated_npz_files_are_read_by_numpy_and_numpys_here
    a = array("<f8", [300, 300])
    Shmarray.save_npz(path("ours.npz"), compressed: true, a: a, b: array)
    python(<<~PYTHON)
      all = np.load("ours.npz")
      assert all.files == ["a", "b"], all.files
      assert all["a"].shape == (300, 300)
      np.savez_compressed("numpys.npz", **all)
    PYTHON
    all = Shmarray.load_npz(path("numpys.npz"), &:to_h)
    assert_equal [a.to_bytes, array.to_bytes], all.values.map(&:to_bytes)
  end

  def test_objects_of_numpy_are_listed
    python('np.savez("o.npz", allow_pickle=True, meta=np.array([{}, None]), a=np.int8([1]))')
    Shmarray.load_npz(path("o.npz")) do |npz|
      assert_includes npz.files, "meta"
      assert_refused(ArgumentError, /Python objects/) { npz["meta"] }
      assert_equal [1], npz["a"].to_a
    end
  end

  def test_numo_saves_what_numpy_would
    skip "no Numo gem is installed" unless NUMO
    needs_todays_zip_headers
    python('a = np.arange(6.0).reshape(2, 3); np.save("a.npy", a); np.savez("a.npz", a, t=a.T)')
    a = Numo::DFloat.new(2, 3).seq
    Numo::Shared.save_npy(path("b.npy"), a)
    assert_equal read("a.npy"), read("b.npy")
    Numo::Shared.save_npz(path("b.npz"), a, t: a.transpose)
    assert_equal read("a.npz"), read("b.npz")
    assert_equal({ "t" => a.transpose, "arr_0" => a }, Numo::Shared.load_npz(path("a.npz"), &:to_h))
  end
end
