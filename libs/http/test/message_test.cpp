#include "qm/http/http.hpp"

#include <gtest/gtest.h>

namespace qm::http {
namespace message_test {

TEST(Message, PercentDecoding) {
  EXPECT_EQ(url_decode("a%2Fb%20c"), "a/b c");
  EXPECT_EQ(url_decode("100%"), "100%");
  EXPECT_EQ(url_decode("%zz%4"), "%zz%4");
  EXPECT_EQ(url_decode("a+b"), "a+b");
  EXPECT_EQ(url_decode("%e2%82%ac"), "\xe2\x82\xac");
}

TEST(Message, EncodeIsUndoneByDecode) {
  std::string all;
  for (int c = 0; c < 256; ++c) all.push_back(static_cast<char>(c));
  EXPECT_EQ(url_decode(url_encode(all)), all);
  EXPECT_EQ(url_encode("a b/~-._"), "a%20b%2F~-._");
}

TEST(Message, PathAndQuery) {
  Request request;
  request.target = "/api/v1/x%20y?labelSelector=a%3Db%2Cc&watch&limit=5&limit=7&q=one+two";
  EXPECT_EQ(request.path(), "/api/v1/x y");
  const auto query = request.query();
  EXPECT_EQ(query.at("labelSelector"), "a=b,c");
  EXPECT_EQ(query.at("watch"), "");
  EXPECT_EQ(query.at("limit"), "7");
  EXPECT_EQ(query.at("q"), "one two");
  request.target = "/plain";
  EXPECT_TRUE(request.query().empty());
}

TEST(Message, HeadersCompareWithoutCase) {
  Headers headers;
  headers.set("Content-Type", "text/plain");
  headers.set("content-type", "application/json");
  EXPECT_EQ(headers.get("CONTENT-TYPE"), "application/json");
  EXPECT_EQ(headers.all().size(), 1U);
  EXPECT_EQ(headers.get("Absent"), "");
}

Router sample() {
  Router router;
  const auto show = [](std::string label) {
    return [label](const Request&, const Router::Params& params) -> Answer {
      std::string out = label;
      for (const auto& [name, value] : params) out += " " + name + "=" + value;
      return text(200, out);
    };
  };
  router.add("GET", "/", show("root"));
  router.add("GET", "/nodes/{name}", show("node"));
  router.add("DELETE", "/nodes/{name}", show("delete"));
  router.add("GET", "/files/{rest...}", show("files"));
  router.add("GET", "/nodes/{name}/status", show("status"));
  return router;
}

std::string route(const std::string& method, const std::string& target) {
  Request request;
  request.method = method;
  request.target = target;
  const auto answer = sample()(request).head;
  return std::to_string(answer.status) + " " + answer.body;
}

TEST(Router, PicksByMethodAndPattern) {
  EXPECT_EQ(route("GET", "/"), "200 root");
  EXPECT_EQ(route("GET", "/nodes/a"), "200 node name=a");
  EXPECT_EQ(route("DELETE", "/nodes/a?x=1"), "200 delete name=a");
  EXPECT_EQ(route("GET", "/nodes/a/status"), "200 status name=a");
  EXPECT_EQ(route("GET", "/files/a/b/c"), "200 files rest=a/b/c");
  EXPECT_EQ(route("HEAD", "/nodes/a"), "200 node name=a");
}

TEST(Router, AnEncodedSlashStaysInItsSegment) { EXPECT_EQ(route("GET", "/nodes/a%2Fb"), "200 node name=a/b"); }

TEST(Router, RefusesWhatNothingFits) {
  EXPECT_EQ(route("GET", "/nodes").substr(0, 3), "404");
  EXPECT_EQ(route("GET", "/nodes/").substr(0, 3), "404");
  EXPECT_EQ(route("GET", "/nodes/a/b").substr(0, 3), "404");
  Request request;
  request.method = "PUT";
  request.target = "/nodes/a";
  const auto answer = sample()(request).head;
  EXPECT_EQ(answer.status, 405);
  EXPECT_EQ(answer.headers.get("Allow"), "GET, DELETE");
}

}  // namespace message_test
}  // namespace qm::http
