#include "qm/model/checkpoint.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace qm::checkpoint_test {
namespace {

TEST(ResumeUri, UrisAndPathsAreTaken) {
  for (const std::string& uri : std::vector<std::string>{"", "s3://bucket/run-1/step=100", "/mnt/ckpt/step-7",
                                                         "gs://b/a%20b?x=1#part", "file:///a(b)"}) {
    EXPECT_TRUE(check_resume_uri(uri)) << uri;
  }
  EXPECT_TRUE(check_resume_uri(std::string(kMaxResumeUri, 'a')));
}

TEST(ResumeUri, WhatNoUriHasIsRefused) {
  for (const std::string& uri :
       {std::string("s3://a b"), std::string("a\nb"), std::string("a\0b", 3), std::string("\x7f"),
        std::string("s3://b\xc3\xa4"), std::string("a\"b"), std::string("{a}"), std::string("a\\b")}) {
    const auto checked = check_resume_uri(uri);
    ASSERT_FALSE(checked) << uri;
    EXPECT_NE(checked.error().message.find("the URI has the byte 0x"), std::string::npos) << checked.error().message;
  }
  const auto too_long = check_resume_uri(std::string(kMaxResumeUri + 1, 'a'));
  ASSERT_FALSE(too_long);
  EXPECT_EQ(too_long.error().message, "the URI has 1025 bytes, at most 1024 are allowed");
}

TEST(NodeLocalUri, EndsWithItsNode) {
  for (const char* uri : {"file:///data", "File:/x", "emptyDir://v/x", "emptydir:x", "hostPath:/data", "local:/x"})
    EXPECT_TRUE(is_node_local(uri)) << uri;
  for (const char* uri : {"", "s3://b", "gs://b", "https://x", "/mnt/run", "file", "files://x", "nfs://x"})
    EXPECT_FALSE(is_node_local(uri)) << uri;
}

}  // namespace
}  // namespace qm::checkpoint_test
