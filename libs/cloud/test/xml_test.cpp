#include "src/xml.hpp"

#include <gtest/gtest.h>

namespace qm::cloud {
namespace xml_test {

TEST(Xml, ReadsElementsListsAndText) {
  const auto root = parse_xml(R"(<?xml version="1.0" encoding="UTF-8"?>
<!-- a comment -->
<R xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
  <set><item><id>i-1</id><on>true</on></item><item><id>i-2</id><count>12</count></item></set>
  <ns:named a="x>y">text</ns:named>
  <empty/>
</R>)");
  ASSERT_TRUE(root) << root.error().to_string();
  EXPECT_EQ(root->name, "R");
  const auto items = root->items("set");
  ASSERT_EQ(items.size(), 2u);
  EXPECT_EQ(items[0]->value("id"), "i-1");
  EXPECT_TRUE(items[0]->flag("on"));
  EXPECT_FALSE(items[1]->flag("on"));
  EXPECT_EQ(items[1]->integer("count"), 12);
  EXPECT_EQ(root->value("named"), "text");
  EXPECT_EQ(root->value("empty"), "");
  EXPECT_TRUE(root->text.empty());
}

TEST(Xml, AbsentChainsAreEmpty) {
  const auto root = parse_xml("<a/>");
  ASSERT_TRUE(root);
  EXPECT_EQ((*root)["b"]["c"].value("d"), "");
  EXPECT_EQ(root->integer("b"), 0);
  EXPECT_TRUE(root->items("b").empty());
}

TEST(Xml, EntitiesAndCharacters) {
  const auto root = parse_xml("<a>&lt;&gt;&amp;&quot;&apos; &#65;&#xe9;&#x20AC;&#x1F600;<![CDATA[<&raw;>]]></a>");
  ASSERT_TRUE(root) << root.error().to_string();
  EXPECT_EQ(root->text, "<>&\"' A\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80<&raw;>");
}

TEST(Xml, SpaceInLeavesIsKept) {
  const auto root = parse_xml("<a><b> x </b></a>");
  ASSERT_TRUE(root);
  EXPECT_EQ(root->value("b"), " x ");
}

TEST(Xml, BrokenTextIsRefusedWithItsPlace) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "no element"},
      {"<a>", "the end comes before </a>"},
      {"<a></b>", "</b> closes nothing"},
      {"</a>", "closes nothing"},
      {"<a/><b/>", "a second root"},
      {"x<a/>", "text outside the root"},
      {"<![CDATA[x]]><a/>", "text outside the root"},
      {"<a", "a tag that does not end"},
      {"<a x='>", "a tag that does not end"},
      {"<>", "a tag without a name"},
      {"<!DOCTYPE a [<!ENTITY x \"y\">]><a>&x;</a>", "a document type is refused"},
      {"<a>&x;</a>", "an unknown entity"},
      {"<a>&#0;</a>", "an unknown entity"},
      {"<a>&#xD800;</a>", "an unknown entity"},
      {"<a>&#x110000;</a>", "an unknown entity"},
      {"<a>& b</a>", "an unknown entity"},
      {"<a><!-- x</a>", "no \"-->\" follows"},
  };
  for (const auto& [text, what] : cases) {
    const auto root = parse_xml(text);
    ASSERT_FALSE(root) << text;
    EXPECT_EQ(root.error().code, Code::kInvalid) << text;
    EXPECT_NE(root.error().message.find(what), std::string::npos) << text << ": " << root.error().message;
    EXPECT_NE(root.error().message.find("at byte"), std::string::npos);
  }
}

TEST(Xml, DepthIsBound) {
  const auto nest = [](std::size_t n) {
    std::string text;
    for (std::size_t i = 0; i < n; ++i) text += "<a>";
    for (std::size_t i = 0; i < n; ++i) text += "</a>";
    return text;
  };
  EXPECT_TRUE(parse_xml(nest(XmlReader::kMaxDepth)));
  EXPECT_FALSE(parse_xml(nest(XmlReader::kMaxDepth + 1)));
}

TEST(Xml, ReaderGivesEventsInOrder) {
  XmlReader reader("<a>x<b/></a>");
  using Kind = XmlReader::Kind;
  const std::pair<Kind, const char*> expected[] = {{Kind::kStart, "a"}, {Kind::kText, "x"}, {Kind::kStart, "b"},
                                                   {Kind::kEnd, "b"},   {Kind::kEnd, "a"},  {Kind::kDone, ""},
                                                   {Kind::kDone, ""}};
  for (const auto& [kind, text] : expected) {
    const auto event = reader.next();
    ASSERT_TRUE(event);
    EXPECT_EQ(event->kind, kind);
    EXPECT_EQ(event->text, text);
  }
}

}  // namespace xml_test
}  // namespace qm::cloud
