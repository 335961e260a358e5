#include "qm/base/unpacked.hpp"

#include <zlib.h>

namespace qm {

Result<std::string> read_unpacked(const std::string& path, const std::string& remedy) {
  const Error unreadable{Code::kNotFound, path + " cannot be read", path, remedy};
  gzFile file = gzopen(path.c_str(), "rb");
  if (file == nullptr) return fail(unreadable);
  std::string out, part(1 << 16, '\0');
  int n = 0;
  while ((n = gzread(file, part.data(), static_cast<unsigned>(part.size()))) > 0) {
    out.append(part, 0, static_cast<std::size_t>(n));
  }
  // gzclose reports a truncated file.
  if (gzclose(file) != Z_OK || n < 0) return fail(unreadable);
  return out;
}

}  // namespace qm
