#include "qm/base/base64.hpp"

#include <gtest/gtest.h>

namespace qm {
namespace base64_test {

TEST(Base64, RoundTrips) {
  EXPECT_EQ(base64(""), "");
  EXPECT_EQ(base64("f"), "Zg==");
  EXPECT_EQ(base64("fo"), "Zm8=");
  EXPECT_EQ(base64("foo"), "Zm9v");
  std::string all;
  for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
  EXPECT_EQ(*from_base64(base64(all)), all);
  EXPECT_EQ(*from_base64("Zm9v\r\nZg==\n"), "foof");
  for (const char* text : {"Zm9v!", "Zm9", "Z===", "Zg==Zg=="}) EXPECT_FALSE(from_base64(text)) << text;
}

}  // namespace base64_test
}  // namespace qm
