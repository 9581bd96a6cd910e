# frozen_string_literal: true

require "stringio"
require "shmarray/npz_file"

module Shmarray
  # The methods that load and save files, for this module and for Numo::Shared: they decide what a
  # file was given as, and read and write IOs.
  #
  # A String is always a path, and bytes are given as +bytes:+. So no file that is empty or broken
  # is taken for a path, and no path for a file.
  module Files
    # The first bytes of an NPY file, and of an NPZ file with and without members.
    MAGICS = ["\x93NUMPY".b, "PK\x03\x04".b, "PK\x05\x06".b].each(&:freeze).freeze
    # An IO is read in pieces of this size. Each is copied to its place with Ruby's lock.
    PIECE_BYTES = 256 << 10
    # The bytes that tell how long a header is.
    START_BYTES = 12

    class << self
      def load_npy(source, bytes, numo)
        path, io = path_or_io(source, bytes, :read)
        io ? read_npy(io, numo) : load(path, bytes, numo)
      end

      def load_batch(sources, bytes, threads, numo, &block)
        check_source(sources, bytes)
        all = (bytes || sources).to_a
        all = all.map { |path| path_of(path) } unless bytes
        load_all(all, !bytes.nil?, threads, numo, &block)
      end

      def load_npz(source, bytes, type, numo, verify: false, threads: nil, max_bytes: nil)
        path, io = path_or_io(source, bytes, :read)
        bytes = piece_of(io, nil) if io
        npz = type.send(:open, path, bytes, max_bytes, numo).send(:prepare, threads)
        verify_all(npz, threads) if verify
        return npz unless block_given?

        begin
          yield npz
        ensure
          npz.close
        end
      end

      def save_npy(target, array)
        path, io = path_or_io(target, nil, :write)
        save(path, io, array)
      end

      def save_npz(target, arrays, named, compressed, threads, align)
        unless [true, false].include?(compressed)
          raise ArgumentError, "compressed: must be true or false; an array of that name " \
                               "can be given in a Hash"
        end

        unless align.is_a?(Integer)
          raise TypeError, "invalid align: #{align.inspect} is not an Integer"
        end

        path, io = path_or_io(target, nil, :write)
        members = members_of(arrays, named)
        options = [compressed, threads, align]
        save_all(path, io, members.map(&:first), members.map(&:last), options)
      end

      private

      # Closes a file that is broken.
      def verify_all(npz, threads)
        npz.send(:verify_members, threads)
        is_whole = true
      ensure
        npz.close unless is_whole
      end

      # Returns a path and nil, or nil and an IO; nil twice if bytes are given instead.
      def path_or_io(source, bytes, method)
        check_source(source, bytes)
        return if bytes

        io?(source, method) ? [nil, source] : path_of(source)
      end

      def check_source(source, bytes)
        return if source.nil? ^ bytes.nil?

        raise ArgumentError, "give one of a file, as a path or an IO, and bytes:"
      end

      # A Pathname has the methods of an IO, too, but no IO behind it.
      def io?(source, method)
        source.respond_to?(method) &&
          (source.respond_to?(:to_io) || !source.respond_to?(:to_path))
      end

      def path_of(source)
        if source.is_a?(String) && source.b.start_with?(*MAGICS)
          raise ArgumentError, "this String is the contents of a file: give it as bytes:"
        end

        File.path(source)
      end

      # In the order in which numpy.savez has them.
      def members_of(arrays, named)
        hashes, arrays = arrays.partition { |array| array.is_a?(Hash) }
        numbered = arrays.each_with_index.to_h { |array, at| ["arr_#{at}", array] }
        [named, *hashes, numbered].flat_map(&:to_a).map do |name, value|
          [value.is_a?(String) ? name.to_s : "#{name}.npy", value]
        end
      end

      # Reads one array, and no byte behind it. What is read goes straight to its place, in pieces.
      def read_npy(io, numo)
        start = read_up_to(io, START_BYTES)
        dtype, shape, order, bytes =
          header(start + read_up_to(io, header_bytes(start) - start.bytesize), numo)
        rest = rest_of(io)
        refuse_short(bytes, rest) if rest && rest < bytes
        array = Array.create(dtype, shape, order: order, uninitialized: true)
        begin
          fill(array, io, bytes)
          handed_over(array, numo)
        ensure
          array.close
        end
      end

      def read_up_to(io, bytes)
        read = "".b
        while read.bytesize < bytes && (piece = piece_of(io, bytes - read.bytesize))
          read << piece
        end
        read
      end

      def fill(array, io, bytes)
        done = 0
        while done < bytes
          piece = piece_of(io, [bytes - done, PIECE_BYTES].min)
          refuse_short(bytes, done) unless piece
          array.send(:store_bytes, done, piece)
          done += piece.bytesize
        end
      end

      # Returns how many bytes an IO still has, if it can tell: so a header that lies reserves no
      # memory.
      def rest_of(io)
        case io
        when File then io.stat.file? ? io.size - io.pos : nil
        when StringIO then io.size - io.pos
        end
      end

      def refuse_short(bytes, rest)
        raise ArgumentError, "invalid file: data: the elements take #{bytes} bytes, " \
                             "and #{rest} can be read"
      end

      # Returns nil at the end. No count reads all.
      def piece_of(io, count)
        piece = io.read(*count)
        return if count && [nil, ""].include?(piece)
        return piece.b if piece.is_a?(String) && !(count && piece.bytesize > count)

        raise TypeError, "#{io.class}#read returned #{piece.inspect[0, 40]}, " \
                         "not a String of up to #{count || "all"} bytes"
      end
    end
    private_class_method :load, :load_all, :header, :header_bytes, :handed_over, :save, :save_all
  end
  private_constant :Files
end
