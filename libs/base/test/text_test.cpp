#include "qm/base/text.hpp"

#include <gtest/gtest.h>

namespace qm {
namespace text_test {

using namespace std::string_literals;

TEST(RequestId, IsPrintableAndShort) {
  for (const auto& good :
       {""s, "3f2c9a1e-0b7d-4c55-9d2e-6a1f0e8b7c44"s, "with space ~"s, std::string(kMaxRequestId, 'x')})
    EXPECT_TRUE(check_request_id(good)) << good;
  for (const auto& bad : {"a\0b"s, "a\nb"s, "\x7f"s, "\xc3\xa9"s, "\xff"s, std::string(kMaxRequestId + 1, 'x')}) {
    const auto checked = check_request_id(bad);
    ASSERT_FALSE(checked) << bad;
    EXPECT_EQ(checked.error().code, Code::kInvalid);
    EXPECT_EQ(checked.error().field, "request_id");
  }
  EXPECT_EQ(check_request_id("ab\ncd").error().message,
            "byte 2 of the request id is 0x0a, which is not a printable ASCII character");
  EXPECT_EQ(check_request_id(std::string(12'000, 'x')).error().message,
            "the request id has 12000 bytes, at most 128 are allowed");
}

TEST(Key, IsShortTextWithoutControlCharacters) {
  for (const auto& good : {""s, "team/job-1"s, "\xc3\xa9\xe2\x82\xac\xf0\x9f\x92\xa9"s, std::string(kMaxKey, 'x')})
    EXPECT_TRUE(check_key("the key", good)) << good;
  // A lone continuation byte, an overlong form, half a surrogate pair, a code point beyond Unicode, a truncated
  // sequence.
  for (const auto& bad : {"a\0b"s, "a\tb"s, "\x7f"s, "\x80"s, "\xc0\xaf"s, "\xed\xa0\x80"s, "\xf4\x90\x80\x80"s,
                          "\xe2\x82"s, std::string(kMaxKey + 1, 'x')}) {
    const auto checked = check_key("the key", bad);
    ASSERT_FALSE(checked) << bad;
    EXPECT_EQ(checked.error().code, Code::kInvalid);
    EXPECT_TRUE(checked.error().message.find("the key") != std::string::npos) << checked.error().message;
  }
}

TEST(JsonText, ANulBecomesTheReplacementCharacterAndNothingElseChanges) {
  EXPECT_EQ(without_nul(R"({"a":"\u0000"})"), R"({"a":"\ufffd"})");
  EXPECT_EQ(without_nul(R"({"a":"\\\u0000"})"), R"({"a":"\\\ufffd"})");
  EXPECT_EQ(without_nul(R"(["x\u0000y\u0000"])"), R"(["x\ufffdy\ufffd"])");
  EXPECT_EQ(without_nul(R"({"\u0000":"u0000 \\u0000"})"), R"({"\ufffd":"u0000 \\u0000"})");
  for (const auto& good :
       {R"({"a":"u0000"})"s, R"({"a":"\\u0000"})"s, R"({"a":"\\\\u0000"})"s, R"({"a":"\u0001"})"s, ""s})
    EXPECT_FALSE(without_nul(good)) << good;
}

}  // namespace text_test
}  // namespace qm
