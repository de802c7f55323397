// SPDX-License-Identifier: Apache-2.0
//
// qgemm program as a process, against a service that answers what the test
// says.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/sha256.h"
#include "cli/tensor_files/npy.h"
#include "qgemm/v1/qgemm.pb.h"
#include "tests/cli/processes.h"
#include "tests/client/fake_service.h"

namespace qgemm {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kDone = 0, kFailed = 1, kWrongUsage = 2;

template <typename T>
std::string Raw(const std::vector<T>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()),
                     values.size() * sizeof(T));
}

void SetValue(const std::string& name, v1::NumberType type, uint64_t width,
              v1::ProgramInfo::Value* value) {
  value->set_name(name);
  value->set_type(type);
  value->set_width(width);
}

const std::string kId = "abcdef" + std::string(58, '0');

// Inputs fp32 [m, 2] and bf16 [m, 1]; outputs bf16 [m, 2] and ids [m, 1].
v1::ProgramInfo Info() {
  v1::ProgramInfo info;
  info.set_id(kId);
  info.add_names("ffn");
  info.set_name_count(1);
  SetValue("x", v1::NUMBER_TYPE_FP32, 2, info.add_inputs());
  SetValue("", v1::NUMBER_TYPE_BF16, 1, info.add_inputs());
  SetValue("half", v1::NUMBER_TYPE_BF16, 2, info.add_outputs());
  SetValue("", v1::NUMBER_TYPE_INT32, 1, info.add_outputs());
  info.set_input_row_bytes(10);
  info.set_output_row_bytes(8);
  info.set_ops(5);
  info.add_weights(std::string(64, 'e'));
  info.set_text("qgemm-program-v1\nrevision=1\n");
  return info;
}

class ProgramCommandTest : public testing::Test {
 protected:
  ProgramCommandTest() { service_.set_program(Info()); }

  CommandResult Program(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"cli/qgemm", "program"});
    arguments.push_back("--server=" + service_.unix_address());
    arguments.push_back("--connect_timeout=60s");
    return RunProgram(arguments);
  }

  nlohmann::json Json(std::vector<std::string> arguments) {
    arguments.push_back("--json");
    const CommandResult result = Program(arguments);
    EXPECT_EQ(result.exit_code, kDone) << result.err;
    return nlohmann::json::parse(result.out, nullptr, false);
  }

  // Outputs 1.5, -2 and id 7 in each of m rows.
  void AnswerRows() {
    service_.set_run(
        [](const v1::RunRequest& request, v1::RunResponse* response) {
          std::string halves, ids;
          for (uint64_t row = 0; row < request.m(); ++row) {
            halves += Raw<uint16_t>({0x3fc0, 0xc000});
            ids += Raw<int32_t>({7});
          }
          response->set_outputs(halves + ids);
          response->mutable_timings()->set_kernel_ns(2000);
          return grpc::Status::OK;
        });
  }

  static std::string Path(const std::string& name) {
    return testing::TempDir() + "/" + name;
  }
  static std::string Write(const std::string& name, const std::string& bytes) {
    std::ofstream(Path(name), std::ios::binary) << bytes;
    return Path(name);
  }
  static std::string Read(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return text.str();
  }

  FakeService service_;
};

TEST_F(ProgramCommandTest, LoadSendsTheTextWithItsConstants) {
  const std::string text = Write("program.txtpb", R"(
    revision: 1
    inputs { type: NUMBER_TYPE_FP32 width: 2 }
    constants { name: "norm" type: NUMBER_TYPE_BF16 }
    ops { type: NUMBER_TYPE_FP32 add { x: 0 y: 1 } }
    outputs: 2)");
  const std::string norm =
      Write("norm.npy", NpyHeader("<f4", 1, 2) + Raw<float>({1, -2}));
  const auto loaded = Json({"load", text, "--name=ffn", "--create_only",
                            "--constant", "norm=" + norm});
  EXPECT_EQ(loaded["id"], kId);
  EXPECT_EQ(loaded["deduplicated"], false);
  EXPECT_EQ(loaded["inputs"][0]["type"], "fp32");
  const v1::LoadProgramRequest sent = service_.load_program_request();
  EXPECT_EQ(sent.name(), "ffn");
  EXPECT_TRUE(sent.create_only());
  EXPECT_EQ(sent.program().ops_size(), 1);
  EXPECT_EQ(sent.program().constants(0).values(),
            Raw<uint16_t>({0x3f80, 0xc000}));
}

TEST_F(ProgramCommandTest, LoadSaysWhatIsWrongWithItsFiles) {
  const CommandResult unparsed =
      Program({"load", Write("bad.txtpb", "revision: one")});
  EXPECT_EQ(unparsed.exit_code, kFailed);
  EXPECT_THAT(unparsed.err, HasSubstr("program: line 1, column"));
  EXPECT_THAT(Program({"load", Path("missing.txtpb")}).err,
              HasSubstr("missing.txtpb: cannot be read"));
  EXPECT_THAT(Program({"load", testing::TempDir()}).err,
              HasSubstr("cannot be read"));
  const std::string rows =
      Write("rows.npy", NpyHeader("<f4", 2, 1) + Raw<float>({1, -2}));
  EXPECT_THAT(
      Program({"load", Write("empty.txtpb", ""), "--constant=norm=" + rows})
          .err,
      HasSubstr("one row of floats"));
  EXPECT_EQ(service_.calls(), 0);
}

TEST_F(ProgramCommandTest, ListAndDescribeShowTheProgram) {
  EXPECT_THAT(
      Program({"list"}).out,
      AllOf(HasSubstr("ffn"), HasSubstr("abcdef000000"), Not(HasSubstr(kId))));
  EXPECT_EQ(Json({"list"})["programs"].size(), 2u);
  const std::string described = Program({"describe", "ffn"}).out;
  EXPECT_THAT(described,
              AllOf(HasSubstr(kId), HasSubstr("fp32 [m, 2] x"),
                    HasSubstr("int32 [m, 1]"), HasSubstr("\nrevision=1\n")));
  EXPECT_EQ(Json({"describe", "ffn"})["outputs"][1]["width"], 1);
}

TEST_F(ProgramCommandTest, UnloadTakesTheBeginningOfAnId) {
  const auto unloaded = Json({"unload", "ABCD", "--if_match=abcd"});
  EXPECT_EQ(unloaded["program"], kId);
  EXPECT_EQ(unloaded["freed"], true);
  EXPECT_EQ(service_.unload_program_request().program(), kId);
  EXPECT_EQ(service_.unload_program_request().if_match(), kId);
}

TEST_F(ProgramCommandTest, RunMakesInputsThatAreTheSameAgain) {
  AnswerRows();
  const auto result = Json(
      {"run", "ffn", "--m=3", "--seed=5", "--priority=high", "--client_id=me"});
  EXPECT_EQ(result["m"], 3);
  EXPECT_EQ(result["program"], kId);
  EXPECT_EQ(result["row_bytes"], 8);
  EXPECT_EQ(result["server_us"]["kernel"], 2.0);
  const v1::RunRequest sent = service_.run_request();
  EXPECT_EQ(sent.program(), kId);
  EXPECT_EQ(sent.inputs().size(), 3u * 10);
  EXPECT_EQ(sent.priority(), v1::PRIORITY_HIGH);
  EXPECT_EQ(sent.client_id(), "me");
  Json({"run", "ffn", "--m=3", "--seed=5"});
  EXPECT_EQ(service_.run_request().inputs(), sent.inputs());
  Json({"run", "ffn", "--m=3", "--seed=6"});
  EXPECT_NE(service_.run_request().inputs(), sent.inputs());
}

TEST_F(ProgramCommandTest, RunShowsWhatEachOutputStartsWith) {
  AnswerRows();
  EXPECT_THAT(Program({"run", "ffn", "--m=2"}).out,
              AllOf(HasSubstr("bf16 [2, 2] half, starts with 1.5, -2, 1.5, -2"),
                    HasSubstr("int32 [2, 1], starts with 7, 7")));
}

TEST_F(ProgramCommandTest, RunShowsTheTimeOfEachOp) {
  v1::ProgramInfo info = Info();
  info.set_text(
      "qgemm-program-v1\nrevision=1\ninput fp32 2\n"
      "act bf16 x=0 activation=silu\nadd fp32 x=1 y=0\noutput 2\n");
  service_.set_program(info);
  service_.set_run(
      [](const v1::RunRequest& request, v1::RunResponse* response) {
        response->set_outputs(std::string(8 * request.m(), '\0'));
        if (!request.time_ops()) return grpc::Status::OK;
        for (const uint64_t op_ns : {1500, 3000, 1500}) {
          response->mutable_timings()->add_op_ns(op_ns);
        }
        return grpc::Status::OK;
      });
  EXPECT_THAT(Program({"run", "ffn", "--time_ops"}).out,
              AllOf(HasSubstr("0   silu  bf16  1.5  25.0 %"),
                    HasSubstr("1   add   fp32  3.0  50.0 %"),
                    HasSubstr("2   ?     ?     1.5  25.0 %")));
  EXPECT_EQ(Json({"run", "ffn", "--time_ops"})["op_us"],
            nlohmann::json({1.5, 3.0, 1.5}));
  EXPECT_FALSE(Json({"run", "ffn"}).contains("op_us"));
  AnswerRows();
  EXPECT_THAT(Program({"run", "ffn", "--time_ops"}).out,
              HasSubstr("cannot tell the time of each op"));
}

// relu(x) * c, with x [m, 2] and c in a file; x is in another.
class VerifyProgramTest : public ProgramCommandTest {
 protected:
  VerifyProgramTest() {
    SetText(absl::StrCat("qgemm-program-v1\nrevision=1\ninput fp32 2\n",
                         "constant fp32 2 ", HashOf(Raw<float>({2, 0.5f})),
                         "\nact fp32 x=0 activation=relu\n",
                         "mul fp32 x=2 y=1\noutput 3\n"));
    AnswerWith({1, 0, 3, 4}, {2, 0, 6, 2});
  }

  static std::string HashOf(const std::string& bytes) {
    Sha256 hash;
    hash.Update(bytes);
    return ToHex(hash.Finish());
  }

  void SetText(const std::string& text) {
    v1::ProgramInfo info;
    info.set_id(HashOf(text));
    info.set_text(text);
    SetValue("x", v1::NUMBER_TYPE_FP32, 2, info.add_inputs());
    SetValue("y", v1::NUMBER_TYPE_FP32, 2, info.add_outputs());
    service_.set_program(info);
  }

  // Results of both ops in the program that answers them, and the output.
  void AnswerWith(const std::vector<float>& relu,
                  const std::vector<float>& product,
                  const std::vector<float>& output) {
    service_.set_run(
        [=](const v1::RunRequest& request, v1::RunResponse* response) {
          const bool all =
              request.program() == service_.load_program_request().name();
          response->set_outputs(all ? Raw(relu) + Raw(product) : Raw(output));
          return grpc::Status::OK;
        });
  }
  void AnswerWith(const std::vector<float>& relu,
                  const std::vector<float>& product) {
    AnswerWith(relu, product, product);
  }

  CommandResult Verify(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(),
                     {"run", "ffn", "--verify", "--inputs=" + x_});
    return Program(arguments);
  }
  CommandResult Verify() { return Verify({"--constants=" + c_}); }

  const std::string x_ =
      Write("verify_x.npy", NpyHeader("<f4", 2, 2) + Raw<float>({1, -2, 3, 4}));
  const std::string c_ =
      Write("verify_c.npy", NpyHeader("<f4", 1, 2) + Raw<float>({2, 0.5f}));
};

TEST_F(VerifyProgramTest, JudgesEveryOpOnTheServersValues) {
  const CommandResult result = Verify({"--constants=" + c_, "--json"});
  ASSERT_EQ(result.exit_code, kDone) << result.err;
  const auto verify = nlohmann::json::parse(result.out)["verify"];
  EXPECT_EQ(verify["passed"], true);
  EXPECT_EQ(verify["rows"], 2);
  EXPECT_EQ(verify["relative_norm"], 0.0);
  EXPECT_EQ(verify["ops"][0]["op"], "relu");
  EXPECT_EQ(verify["ops"][1]["compared"], 4);
  EXPECT_THAT(Verify().out, HasSubstr("passed: 2 ops of 2 rows"));
}

TEST_F(VerifyProgramTest, HasAProgramOfItsOwnForTheTime) {
  ASSERT_EQ(Verify().exit_code, kDone);
  const v1::LoadProgramRequest loaded = service_.load_program_request();
  EXPECT_THAT(loaded.name(), HasSubstr("qgemm-verify/"));
  EXPECT_THAT(loaded.program().outputs(), ElementsAre(2, 3));
  EXPECT_EQ(service_.unload_program_request().program(), loaded.name());
}

TEST_F(VerifyProgramTest, AnOpThatIsWrongFailsByItsName) {
  AnswerWith({1, 0, 3, 5}, {2, 0, 6, 2.5f});
  const CommandResult result = Verify();
  EXPECT_EQ(result.exit_code, kFailed);
  EXPECT_THAT(result.out, HasSubstr("FAILED: 2 ops"));
  EXPECT_THAT(result.err, AllOf(HasSubstr("op 0 (relu)"), HasSubstr("[1, 1]")));
}

TEST_F(VerifyProgramTest, OutputsOfOtherBitsFail) {
  AnswerWith({1, 0, 3, 4}, {2, 0, 6, 2}, {2, 0, 6, 2.5f});
  const CommandResult result = Verify();
  EXPECT_EQ(result.exit_code, kFailed);
  EXPECT_THAT(result.err, HasSubstr("output 0 of two runs has other bits"));
}

TEST_F(VerifyProgramTest, SourcesMustBeTheProgramsOwn) {
  EXPECT_THAT(Verify({}).err,
              HasSubstr("--constants has 0 sources; the program has 1"));
  EXPECT_THAT(Verify({"--constants=" + c_, "--weights=w.npy"}).err,
              HasSubstr("--weights has 1 sources; the program has 0"));
  const std::string other =
      Write("verify_d.npy", NpyHeader("<f4", 1, 2) + Raw<float>({2, 1}));
  const CommandResult result = Verify({"--constants=" + other});
  EXPECT_EQ(result.exit_code, kFailed);
  EXPECT_THAT(result.err, HasSubstr("constant 0 has other values"));
}

TEST_F(VerifyProgramTest, ATextOfAnotherProgramFails) {
  SetText("qgemm-program-v1\nrevision=1\ninput fp32 2\nhalve fp32 x=0\n");
  EXPECT_THAT(Verify({}).err, HasSubstr("line 4 of the program's text"));
  SetText(
      "qgemm-program-v1\nrevision=1\ninput fp32 2\n"
      "act fp32 x=0 activation=relu rounding=bf16\noutput 1\n");
  EXPECT_THAT(Verify({}).err, HasSubstr("a text of another id"));
}

TEST_F(ProgramCommandTest, RunReadsInputsAndWritesOutputs) {
  AnswerRows();
  const std::string x =
      Write("x.npy", NpyHeader("<f4", 2, 2) + Raw<float>({1, 2, 3, 4}));
  const std::string y =
      Write("y.npy", NpyHeader("<f4", 2, 1) + Raw<float>({1, -2}));
  Json({"run", "ffn", "--inputs=" + x + "," + y,
        "--outputs=" + Path("half.npy") + "," + Path("ids.npy")});
  EXPECT_EQ(service_.run_request().m(), 2u);
  EXPECT_EQ(service_.run_request().inputs(),
            Raw<float>({1, 2, 3, 4}) + Raw<uint16_t>({0x3f80, 0xc000}));
  EXPECT_EQ(Read(Path("half.npy")),
            NpyHeader("<f4", 2, 2) + Raw<float>({1.5f, -2, 1.5f, -2}));
  EXPECT_EQ(Read(Path("ids.npy")),
            NpyHeader("<i4", 2, 1) + Raw<int32_t>({7, 7}));
}

TEST_F(ProgramCommandTest, RunRefusesFilesThatDoNotFit) {
  const std::string x =
      Write("two.npy", NpyHeader("<f4", 2, 2) + Raw<float>({1, 2, 3, 4}));
  const std::string y =
      Write("one.npy", NpyHeader("<f4", 1, 1) + Raw<float>({1}));
  EXPECT_THAT(Program({"run", "ffn", "--inputs=" + x}).err,
              HasSubstr("--inputs has 1 files; the program has 2"));
  EXPECT_THAT(Program({"run", "ffn", "--inputs=" + y + "," + x}).err,
              HasSubstr("floats [m, 2] are needed"));
  EXPECT_THAT(Program({"run", "ffn", "--inputs=" + x + "," + y}).err,
              HasSubstr("one.npy has 1 rows"));
  EXPECT_THAT(Program({"run", "ffn", "--outputs=" + Path("o.npy")}).err,
              HasSubstr("--outputs has 1 files; the program has 2"));
  EXPECT_EQ(service_.run_request().m(), 0u);
}

TEST_F(ProgramCommandTest, RunRefusesAnswersOfAnotherSize) {
  service_.set_run([](const v1::RunRequest&, v1::RunResponse* response) {
    response->set_outputs("abc");
    return grpc::Status::OK;
  });
  const CommandResult result = Program({"run", "ffn"});
  EXPECT_EQ(result.exit_code, kFailed);
  EXPECT_THAT(result.err, HasSubstr("which are not those of program"));
}

TEST_F(ProgramCommandTest, ADescriptionFromAHostileServerIsHarmless) {
  v1::ProgramInfo info = Info();
  info.mutable_inputs(0)->set_width(0);
  service_.set_program(info);
  EXPECT_EQ(Program({"run", "ffn"}).exit_code, kFailed);
  info.mutable_inputs(0)->set_width(~uint64_t{0});
  service_.set_program(info);
  EXPECT_EQ(Program({"run", "ffn"}).exit_code, kFailed);
  info.mutable_inputs(0)->set_width(2);
  info.mutable_inputs(0)->set_type(v1::NUMBER_TYPE_INT32);
  info.mutable_inputs(0)->set_name("x\x1b[2J");
  service_.set_program(info);
  EXPECT_EQ(Program({"run", "ffn"}).exit_code, kFailed);
  const CommandResult described = Program({"describe", "ffn"});
  EXPECT_EQ(described.exit_code, kDone);
  EXPECT_THAT(described.out, Not(HasSubstr("\x1b")));
}

TEST_F(ProgramCommandTest, WrongUsageExitsWithTwoAndSaysWhy) {
  const std::vector<std::vector<std::string>> cases = {
      {},
      {"frobnicate"},
      {"load"},
      {"load", "file", "--constant=norm"},
      {"load", "file", "--constant==norm.npy"},
      {"load", "file", "--create_only"},
      {"load", "file", "--name=n", "--create_only", "--if_match=ab"},
      {"list", "extra"},
      {"describe"},
      {"run"},
      {"run", "ffn", "--m=0"},
      {"run", "ffn", "--priority=urgent"},
      {"run", "ffn", "--weights=w.npy"},
      {"run", "ffn", "--constants=c.npy"},
      {"unload"}};
  for (const std::vector<std::string>& arguments : cases) {
    const CommandResult result = Program(arguments);
    EXPECT_EQ(result.exit_code, kWrongUsage)
        << testing::PrintToString(arguments);
    EXPECT_THAT(result.err, HasSubstr("qgemm"));
    EXPECT_EQ(result.out, "");
  }
  EXPECT_THAT(Program({"run", "ffn", "--m=0"}).err,
              HasSubstr("see qgemm program run --help"));
  EXPECT_THAT(Program({"lod"}).err, HasSubstr("did you mean load?"));
}

TEST_F(ProgramCommandTest, HelpOfEveryCommandSucceeds) {
  for (const char* command : {"load", "list", "describe", "run", "unload"}) {
    const CommandResult result = Program({command, "--help"});
    EXPECT_EQ(result.exit_code, kDone);
    EXPECT_THAT(result.out, HasSubstr("--server"));
  }
  EXPECT_THAT(Program({"--help"}).out, HasSubstr("unload"));
}

}  // namespace
}  // namespace qgemm
