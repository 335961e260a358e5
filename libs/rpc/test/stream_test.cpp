#include "qm/rpc/stream.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

namespace qm::rpc {
namespace stream_test {

/// A reader with a controlled speed: it reads a message when the test calls take().
struct Reader {
  std::vector<std::string> read;
  const std::string* under_way = nullptr;
  std::optional<grpc::Status> end;

  void StartWrite(const std::string* message) { under_way = message; }
  void Finish(const grpc::Status& status) { end = status; }
  void take(StreamWriter<Reader, std::string>& writer, bool ok = true) {
    read.push_back(*under_way);
    under_way = nullptr;
    writer.written(ok);
  }
};

TEST(StreamWriter, WritesOneAfterTheOther) {
  Reader reader;
  StreamWriter<Reader, std::string> writer(reader, 2);
  EXPECT_TRUE(writer.push("a"));
  EXPECT_TRUE(writer.push("b"));
  EXPECT_EQ(*reader.under_way, "a");
  reader.take(writer);
  reader.take(writer);
  EXPECT_EQ(reader.under_way, nullptr);
  EXPECT_EQ(reader.read, (std::vector<std::string>{"a", "b"}));
  EXPECT_FALSE(reader.end);
}

TEST(StreamWriter, WhatItBeginsWithIsNotHeldAgainstTheReader) {
  Reader reader;
  StreamWriter<Reader, std::string> writer(reader, 2);
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(writer.push(std::to_string(i)));
  writer.live();
  EXPECT_TRUE(writer.push("first event"));
  EXPECT_TRUE(writer.push("second event"));
  while (reader.under_way != nullptr) reader.take(writer);
  EXPECT_EQ(reader.read.size(), 102U);
  EXPECT_TRUE(writer.push("third"));
  EXPECT_TRUE(writer.push("fourth"));
}

TEST(StreamWriter, AReaderThatIsTooFarBehindHasToRestart) {
  Reader reader;
  StreamWriter<Reader, std::string> writer(reader, 2);
  ASSERT_TRUE(writer.push("opening"));
  writer.live();
  EXPECT_TRUE(writer.push("a"));
  EXPECT_TRUE(writer.push("b"));
  EXPECT_FALSE(writer.push("c"));
  ASSERT_TRUE(reader.end);
  EXPECT_EQ(reader.end->error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  reader.take(writer);  // the one that gRPC held
  EXPECT_EQ(reader.under_way, nullptr);
  EXPECT_FALSE(writer.push("d"));
}

TEST(StreamWriter, EndsOnceAndWithTheFirstReason) {
  Reader reader;
  StreamWriter<Reader, std::string> writer(reader, 2);
  writer.push("a");
  reader.take(writer, false);
  EXPECT_EQ(reader.end->error_code(), grpc::StatusCode::CANCELLED);
  writer.finish(grpc::Status::OK);
  EXPECT_EQ(reader.end->error_code(), grpc::StatusCode::CANCELLED);
}

}  // namespace stream_test
}  // namespace qm::rpc
