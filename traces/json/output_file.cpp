#include "traces/json/output_file.h"

#include <zlib.h>

#include "traces/model/error.h"

namespace corun {

namespace {

std::filesystem::path beside(const std::filesystem::path& file) {
  std::error_code ignored;
  const bool other = std::filesystem::exists(file, ignored) && !std::filesystem::is_regular_file(file, ignored);
  return other ? file : std::filesystem::path(file.string() + ".part");
}

}  // namespace

OutputFile::OutputFile(const std::filesystem::path& file, Compress compress)
    : file_(file),
      written_(beside(file)),
      compressed_(compress == Compress::by_name && file.extension() == ".gz"),
      plain_(written_, std::ios::binary) {
  if (!plain_) throw InputError(file.string(), "", "it cannot be written", "choose another place");
}

OutputFile::~OutputFile() {
  std::error_code ignored;
  if (written_ != file_) std::filesystem::remove(written_, ignored);
}

std::ostream& OutputFile::stream() {
  if (compressed_) return text_;
  return plain_;
}

void OutputFile::close(const std::function<void(const std::filesystem::path&)>& check) {
  if (compressed_) {
    const std::string text = std::move(text_).str();
    z_stream z{};
    // 15 + 16: the largest window, with gzip's header, which holds no time: the same bytes for the same text.
    bool fine = deflateInit2(&z, Z_BEST_COMPRESSION, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY) == Z_OK;
    std::string packed(deflateBound(&z, static_cast<uLong>(text.size())), '\0');
    z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
    z.avail_in = static_cast<uInt>(text.size());
    z.next_out = reinterpret_cast<Bytef*>(packed.data());
    z.avail_out = static_cast<uInt>(packed.size());
    fine = fine && deflate(&z, Z_FINISH) == Z_STREAM_END;
    packed.resize(z.total_out);
    deflateEnd(&z);
    if (!fine)
      throw InputError(file_.string(), "", "it could not be compressed", "choose a name without .gz");
    plain_ << packed;
  }
  plain_.close();
  if (check && plain_ && written_ != file_) check(written_);  // a pipe cannot be read again
  std::error_code failed;
  if (plain_ && written_ != file_) std::filesystem::rename(written_, file_, failed);
  if (!plain_ || failed) throw InputError(file_.string(), "", "could not be written to the end", "is the disk full?");
  written_ = file_;
}

}  // namespace corun
