// SPDX-License-Identifier: Apache-2.0
//
// Lines as text and as JSON, with values of hostile origin.

#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "base/log_line.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace qgemm {
namespace {

using ::nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

// Forges a line of our own and clears the terminal.
constexpr char kHostile[] = "x\nI 2026-01-01 main.cc:1] drained\x1b[2J";

LogRecord Record() {
  LogRecord record;
  record.time = absl::FromUnixMillis(1'767'225'600'123);
  record.file = "file.cc";
  record.line = 12;
  return record;
}

LogRecord Event() {
  LogRecord record = Record();
  record.event = "weights_loaded";
  return record;
}

std::string TextOf(std::string value) {
  LogRecord record = Event();
  record.fields = {{"name", std::move(value)}};
  return FormatText(record);
}

TEST(FormatTextTest, ShowsSeverityTimePlaceAndMessage) {
  LogRecord record = Record();
  record.severity = LogSeverity::kWarning;
  record.message = "listening on 8080";
  EXPECT_EQ(FormatText(record),
            "W 2026-01-01T00:00:00.123Z file.cc:12] listening on 8080");
}

TEST(FormatTextTest, ShowsFieldsInTheirOrder) {
  LogRecord record = Event();
  record.fields = {{"id", std::string("abc")},
                   {"bytes", int64_t{4096}},
                   {"share", 0.25},
                   {"bound", true},
                   {"took", absl::Nanoseconds(1'234'567)}};
  record.suppressed = 7;
  EXPECT_EQ(FormatText(record),
            "I 2026-01-01T00:00:00.123Z file.cc:12] weights_loaded id=abc "
            "bytes=4096 share=0.25 bound=true took=1.234ms suppressed=7");
}

TEST(FormatTextTest, QuotesWhatIsNotOneWord) {
  EXPECT_THAT(TextOf("ipv4:127.0.0.1:80"),
              HasSubstr(" name=ipv4:127.0.0.1:80"));
  EXPECT_THAT(TextOf(""), HasSubstr(" name=\"\""));
  EXPECT_THAT(TextOf("uid 1000"), HasSubstr(" name=\"uid 1000\""));
  EXPECT_THAT(TextOf("a=b"), HasSubstr(" name=\"a=b\""));
  EXPECT_THAT(TextOf("say \"x\""), HasSubstr(" name=\"say \\\"x\\\"\""));
  EXPECT_THAT(TextOf("\" bytes=1"), HasSubstr(" name=\"\\\" bytes=1\""));
}

TEST(FormatTextTest, KeepsHostileTextOnItsLine) {
  EXPECT_THAT(
      TextOf(kHostile),
      HasSubstr(" name=\"x\\nI 2026-01-01 main.cc:1] drained\\x1b[2J\""));
  LogRecord record = Record();
  record.message = kHostile;
  EXPECT_THAT(FormatText(record),
              HasSubstr("] x\\nI 2026-01-01 main.cc:1] drained\\x1b[2J"));
}

TEST(FormatTextTest, CutsLongText) {
  const std::string text = TextOf(std::string(kMaxFieldBytes + 44, 'x'));
  EXPECT_THAT(text,
              HasSubstr(std::string(kMaxFieldBytes, 'x') + "[+44 bytes]\""));
  EXPECT_THAT(text, Not(HasSubstr(std::string(kMaxFieldBytes + 1, 'x'))));
  LogRecord record = Record();
  record.message = std::string(1 << 20, 'x');
  EXPECT_LT(FormatText(record).size(), kMaxMessageBytes + 100);
}

TEST(FormatJsonTest, IsOneObjectWithTypedFields) {
  LogRecord record = Event();
  record.severity = LogSeverity::kError;
  record.fields = {{"id", std::string("abc")},
                   {"bytes", int64_t{4096}},
                   {"share", 0.25},
                   {"bound", true},
                   {"took", absl::Milliseconds(1500)}};
  record.suppressed = 7;
  EXPECT_EQ(FormatJson(record),
            R"({"time":"2026-01-01T00:00:00.123Z","severity":"ERROR",)"
            R"("file":"file.cc","line":12,"event":"weights_loaded",)"
            R"("id":"abc","bytes":4096,"share":0.25,"bound":true,)"
            R"("took_seconds":1.5,"suppressed":7})");
}

TEST(FormatJsonTest, PlainLinesHaveAMessage) {
  LogRecord record = Record();
  record.message = "listening";
  const json object = json::parse(FormatJson(record));
  EXPECT_EQ(object["message"], "listening");
  EXPECT_FALSE(object.contains("event"));
}

TEST(FormatJsonTest, KeepsHostileTextInItsString) {
  LogRecord record = Event();
  record.fields = {{"name", std::string(kHostile)},
                   {"raw", std::string("\xFF\xC2\x9B")}};
  const std::string line = FormatJson(record);
  EXPECT_THAT(line, Not(HasSubstr("\n")));
  EXPECT_THAT(line, Not(HasSubstr("\x1b")));
  EXPECT_THAT(line, Not(HasSubstr("\xC2\x9B")));
  const json object = json::parse(line);
  EXPECT_EQ(object["name"], kHostile);
  EXPECT_EQ(object["raw"], "\xEF\xBF\xBD\xC2\x9B");
}

TEST(FormatJsonTest, CutsLongText) {
  LogRecord record = Event();
  record.fields = {{"name", std::string(kMaxFieldBytes + 44, 'x')}};
  EXPECT_EQ(json::parse(FormatJson(record))["name"],
            std::string(kMaxFieldBytes, 'x') + "[+44 bytes]");
}

TEST(FormatJsonTest, ANumberThatIsNoneIsNull) {
  LogRecord record = Event();
  record.fields = {{"share", std::numeric_limits<double>::quiet_NaN()}};
  EXPECT_TRUE(json::parse(FormatJson(record))["share"].is_null());
}

}  // namespace
}  // namespace qgemm
