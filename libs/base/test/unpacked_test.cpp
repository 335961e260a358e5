#include "qm/base/unpacked.hpp"

#include <gtest/gtest.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <unistd.h>

namespace qm {
namespace unpacked_test {

TEST(ReadUnpacked, TakesBothForms) {
  const auto dir = std::filesystem::temp_directory_path() / fmt::format("qm-unpacked-{}", ::getpid());
  std::filesystem::create_directory(dir);
  const auto at = [&](const char* name) { return (dir / name).string(); };
  std::string text(200'000, 'x');
  text += "end";
  std::ofstream(at("plain")) << text;
  gzFile packed = gzopen(at("packed").c_str(), "wb");
  ASSERT_EQ(gzwrite(packed, text.data(), static_cast<unsigned>(text.size())), static_cast<int>(text.size()));
  ASSERT_EQ(gzclose(packed), Z_OK);
  EXPECT_EQ(read_unpacked(at("plain"), ""), text);
  EXPECT_EQ(read_unpacked(at("packed"), ""), text);
  // A truncated file is an error.
  std::filesystem::copy_file(at("packed"), at("cut"));
  std::filesystem::resize_file(at("cut"), std::filesystem::file_size(at("cut")) / 2);
  EXPECT_FALSE(read_unpacked(at("cut"), ""));
  std::filesystem::remove_all(dir);
}

TEST(ReadUnpacked, NamesTheRemedyForAMissingFile) {
  const auto none = read_unpacked("/nowhere/file", "name a file");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Code::kNotFound);
  EXPECT_EQ(none.error().field, "/nowhere/file");
  EXPECT_EQ(none.error().remedy, "name a file");
}

}  // namespace unpacked_test
}  // namespace qm
