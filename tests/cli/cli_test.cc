// SPDX-License-Identifier: Apache-2.0
//
// Commands and the examples against a server, process by process.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "cli/tensor_files/npy.h"
#include "cli/tensor_files/tensor_file.h"
#include "tests/cli/cli_fixture.h"
#include "tests/cli/processes.h"
#include "tests/cli/tensor_bytes.h"
#include "tests/support/child_process.h"

namespace qgemm {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// --format, --where.
class CliFormatTest
    : public CliTest,
      public testing::WithParamInterface<std::tuple<const char*, const char*>> {
};

TEST_P(CliFormatTest, LoadsAndMultipliesWithinTheFp64Tolerance) {
  const std::string format = std::get<0>(GetParam());
  const std::string where = std::get<1>(GetParam());
  const std::vector<std::string> layer = {
      "--random=128x96", "--seed=7", "--format=" + format, "--where=" + where};
  const std::string name = "formats/" + format + "-" + where;
  std::vector<std::string> load = {"load", "--name=" + name};
  load.insert(load.end(), layer.begin(), layer.end());
  const auto loaded = Json(load);
  EXPECT_EQ(loaded["format"], format);
  EXPECT_EQ(loaded["n"], 96);
  EXPECT_EQ(loaded["k"], 128);
  std::vector<std::string> gemm = {"gemm", name, "--m=5", "--verify"};
  gemm.insert(gemm.end(), layer.begin(), layer.end());
  const auto result = Json(gemm);
  EXPECT_EQ(result["verify"]["passed"], true);
  EXPECT_EQ(result["verify"]["compared"], 5 * 96);
  EXPECT_EQ(result["weights"], loaded["id"]);
}

INSTANTIATE_TEST_SUITE_P(
    Formats, CliFormatTest,
    testing::Combine(testing::Values("kbit2", "kbit3", "kbit4", "kbit5", "q4_0",
                                     "ternary", "int4", "dense"),
                     testing::Values("client", "server")));

// The server's message repeats the name.
TEST_F(CliTest, ErrorsOfTheServerDoNotReachTheTerminalRaw) {
  const CommandResult result = Qgemm({"describe", "layer\x1b[2J"});
  EXPECT_EQ(result.exit_code, kFailed);
  EXPECT_THAT(result.err, HasSubstr("layer"));
  EXPECT_THAT(result.err, Not(HasSubstr("\x1b")));
}

TEST_F(CliTest, ModesAndTypesVerify) {
  const std::vector<std::vector<std::string>> cases = {
      {"q4_0", "--mode=A8", "--dtype=fp16"},
      {"ternary", "--mode=A32", "--dtype=fp32"},
      {"kbit4", "--rounding=fp16", "--dtype=fp32"},
      {"int4", "--out_dtype=fp32", "--dtype=bf16"}};
  for (const auto& c : cases) {
    const std::string format = "--format=" + c[0];
    Json({"load", "--random=64x40", "--name=modes", format});
    const auto result = Json({"gemm", "modes", "--m=3", "--verify",
                              "--random=64x40", format, c[1], c[2]});
    EXPECT_EQ(result["verify"]["passed"], true) << c[0];
  }
}

TEST_F(CliTest, AStreamCarriesWhatNoMessageCan) {
  Json({"load", "--random=256x40", "--name=streamed", "--format=kbit4"});
  const std::vector<std::string> gemm = {
      "gemm",     "streamed",        "--m=64",
      "--verify", "--random=256x40", "--max_message_bytes=8192"};
  EXPECT_EQ(Qgemm(gemm).exit_code, kFailed);
  std::vector<std::string> over_stream = gemm;
  over_stream.push_back("--stream");
  EXPECT_EQ(Json(over_stream)["verify"]["passed"], true);
  EXPECT_NE(Qgemm({"gemm", "unknown", "--stream"}).exit_code, kDone);
}

TEST_F(CliTest, LoadsSafetensorsByTensorName) {
  const std::string json =
      R"({"a":{"dtype":"BF16","shape":[8,32],"data_offsets":[0,512]},)"
      R"("b":{"dtype":"F32","shape":[4,64],"data_offsets":[512,1536]}})";
  const std::string path = Write("layers.safetensors", Safetensors(json, 1536));
  const auto loaded = Json({"load", path, "--tensor=b", "--format=kbit4"});
  EXPECT_EQ(loaded["n"], 4);
  EXPECT_EQ(loaded["k"], 64);
}

TEST_F(CliTest, GgufQ40GoesStraightThrough) {
  std::string data;
  for (int block = 0; block < 6; ++block) {
    data += Raw<uint16_t>(0x2c00 + block) + std::string(16, 0x19 + block);
  }
  std::string file =
      GgufFile(GgufPreamble(1, 0) + GgufTensor("w", {64, 3}, 2, 0), 0) + data;
  const std::string path = Write("q4_0.gguf", file);
  const auto loaded = Json({"load", path, "--name=gguf"});
  EXPECT_EQ(loaded["format"], "q4_0");
  EXPECT_EQ(loaded["uploaded_bytes"], data.size());
  const auto result = Json({"gemm", "gguf", "--verify", "--from", path});
  EXPECT_EQ(result["verify"]["passed"], true);
  const CommandResult twice = Qgemm({"load", path, "--format=kbit4"});
  EXPECT_EQ(twice.exit_code, kFailed);
  EXPECT_THAT(twice.err, HasSubstr("quantize it twice"));
}

TEST_F(CliTest, NpyInputAndOutput) {
  const std::string a_path =
      Write("a.npy", NpyHeader("<f4", 2, 32) + std::string(2 * 32 * 4, '\0'));
  const std::string c_path = testing::TempDir() + "/c.npy";
  Json({"load", "--random=32x5", "--format=dense", "--name=npy"});
  Json({"gemm", "npy", "--a", a_path, "--dtype=fp32", "--out", c_path});
  const auto file = TensorFile::Open(c_path);
  ASSERT_TRUE(file.ok()) << file.status();
  const auto c = (*file)->Matrix("");
  ASSERT_TRUE(c.ok()) << c.status();
  EXPECT_EQ(*(*file)->ReadFloats(*c), std::vector<float>(2 * 5, 0.0f));
  EXPECT_EQ(c->n, 2);
}

TEST_F(CliTest, TheSameWeightsAreSentOnce) {
  const std::vector<std::string> load = {"load", "--random=32x6",
                                         "--format=q4_0", "--seed=11"};
  EXPECT_EQ(Json(load)["deduplicated"], false);
  EXPECT_EQ(Json(load)["deduplicated"], true);
}

TEST_F(CliTest, PinsTouchesWaitsAndUnloadsByPrefix) {
  for (const std::string name : {"prefix/a", "prefix/b"}) {
    Json({"load", "--random=64x40", "--seed=41", "--name=" + name});
  }
  EXPECT_EQ(Json({"pin", "prefix/a", "prefix/b"})["pinned"], true);
  EXPECT_EQ(Json({"pin", "--off", "prefix/a"})["pinned"], false);
  EXPECT_EQ(Json({"touch", "prefix/a", "--lease=1m"})["resident"], 1);
  EXPECT_EQ(Json({"wait-ready", "prefix/a", "prefix/b"})["ready"], true);
  EXPECT_EQ(Json({"wait-ready"})["ready"], true);
  const CommandResult never =
      Qgemm({"wait-ready", "prefix/c", "--timeout=300ms"});
  EXPECT_EQ(never.exit_code, kFailed);
  EXPECT_THAT(never.err, HasSubstr("DEADLINE_EXCEEDED"));
  EXPECT_THAT(never.err, HasSubstr("prefix/c"));
  EXPECT_EQ(Json({"list", "--prefix=prefix/"})["weights"].size(), 1u);
  EXPECT_EQ(Json({"list", "--prefix=prefix/c"})["weights"].size(), 0u);
  const CommandResult kept = Qgemm({"unload", "prefix/a", "--keep_on_disk"});
  EXPECT_EQ(kept.exit_code, kFailed);
  EXPECT_THAT(kept.err, HasSubstr("--state_dir"));
  EXPECT_EQ(Qgemm({"unload", "--prefix=b", "--keep_on_disk"}).exit_code,
            kWrongUsage);
  EXPECT_EQ(Json({"unload", "--prefix=prefix/"})["names"], 2);
  EXPECT_EQ(Qgemm({"unload", "prefix/a", "--prefix=b"}).exit_code, kWrongUsage);
  EXPECT_EQ(Qgemm({"touch", "prefix/a"}).exit_code, kFailed);
}

TEST_F(CliTest, AStateDirectoryIsListedVerifiedAndCleaned) {
  const std::string folder = testing::TempDir() + "/state";
  const auto store = [&folder](const std::string& command) {
    return RunProgram({"cli/qgemm", "store", command, folder, "--json"});
  };
  EXPECT_THAT(store("ls").err, HasSubstr("FAILED_PRECONDITION"));
  std::string id;
  {
    ChildProcess server(
        "server/qgemm_server",
        {"--listen=127.0.0.1:0", "--backend=cpu", "--state_dir=" + folder});
    const std::string address = server.WaitForOutput("serving on ");
    for (const std::string name : {"one", "two"}) {
      const CommandResult loaded = RunProgram(
          {"cli/qgemm", "load", "--random=64x40", "--seed=5", "--json",
           "--format=" + std::string(name == "one" ? "q4_0" : "int4"),
           "--name=" + name, "--server=" + address});
      ASSERT_EQ(loaded.exit_code, kDone) << loaded.err;
      id = nlohmann::json::parse(loaded.out)["id"];
    }
    for (const char* const command : {"ls", "verify", "gc"}) {
      EXPECT_THAT(store(command).err, HasSubstr("UNAVAILABLE")) << command;
    }
    server.Signal(SIGTERM);
    EXPECT_EQ(server.Wait(), 0);
  }
  const auto listed = nlohmann::json::parse(store("ls").out);
  EXPECT_EQ(listed["layers"].size(), 2);
  EXPECT_EQ(nlohmann::json::parse(store("verify").out)["layers"], 2);
  {
    std::fstream file(folder + "/layers/" + id + ".qgw",
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(4096 + 3);
    file.put('\x55');
    file.put('\xaa');
  }
  const CommandResult wrong = store("verify");
  EXPECT_EQ(wrong.exit_code, kFailed);
  EXPECT_THAT(wrong.err, HasSubstr("DATA_LOSS"));
  EXPECT_EQ(nlohmann::json::parse(wrong.out)["wrong"][0]["id"], id);
  std::ofstream(folder + "/layers/" + std::string(64, 'a') + ".qgw") << "x";
  EXPECT_EQ(nlohmann::json::parse(store("gc").out)["freed_bytes"], 1);
  EXPECT_EQ(nlohmann::json::parse(store("ls").out)["unheld"]["files"], 0);
}

// Commands are killed later and later until one was within its upload.
TEST_F(CliTest, AnUploadThatWasCutOffGoesOn) {
  int64_t resumed_bytes = 0;
  for (int i = 1; i < 100 && resumed_bytes == 0; ++i) {
    const std::string seed = "--seed=" + std::to_string(1000 + i);
    const std::vector<std::string> layer = {
        "load", "--random=4096x4096", "--format=dense", seed, "--name=cut"};
    std::vector<std::string> flags = layer;
    flags.push_back("--server=" + server_->target());
    ChildProcess command("cli/qgemm", flags);
    absl::SleepFor(absl::Milliseconds(20) * i);
    command.Signal(SIGKILL);
    command.Wait();
    std::vector<std::string> resumed = layer;
    resumed.push_back("--resume");
    const nlohmann::json loaded = Json(resumed);
    resumed_bytes = loaded["resumed_bytes"];
    EXPECT_EQ(Json({"describe", "cut"})["id"], loaded["id"]);
    EXPECT_EQ(Json({"unload", "cut"})["freed"], true);
  }
  EXPECT_GT(resumed_bytes, 0);
}

TEST_F(CliTest, VerifyRefusesOtherWeights) {
  Json({"load", "--random=32x6", "--format=kbit4", "--name=other"});
  const CommandResult result =
      Qgemm({"gemm", "other", "--verify", "--random=32x6", "--seed=2"});
  EXPECT_EQ(result.exit_code, kFailed);
  EXPECT_THAT(result.err, HasSubstr("are not these"));
}

TEST_F(CliTest, DescribeListAndUnload) {
  Json({"load", "--random=32x6", "--format=int4", "--name=one"});
  const auto described = Json({"describe", "one"});
  EXPECT_EQ(described["format"], "int4");
  EXPECT_THAT(Qgemm({"describe", "one"}).out, HasSubstr("format=int4"));
  EXPECT_THAT(Qgemm({"list"}).out, HasSubstr("one"));
  EXPECT_EQ(Json({"unload", "one"})["freed"], true);
  EXPECT_THAT(Qgemm({"list"}).out, Not(HasSubstr("one ")));
  const CommandResult gone = Qgemm({"describe", "one"});
  EXPECT_EQ(gone.exit_code, kFailed);
  EXPECT_THAT(gone.err, HasSubstr("NOT_FOUND"));
}

TEST_F(CliTest, ConditionsOnANameKeepItFromBeingTaken) {
  const std::vector<std::string> load = {"load", "--random=32x6",
                                         "--format=int4", "--name=mine"};
  const auto with = [&load](std::vector<std::string> more) {
    more.insert(more.begin(), load.begin(), load.end());
    return more;
  };
  const std::string id = Json(with({"--seed=21", "--create_only"}))["id"];
  const CommandResult taken = Qgemm(with({"--seed=22", "--create_only"}));
  EXPECT_EQ(taken.exit_code, kFailed);
  EXPECT_THAT(taken.err, HasSubstr("ALREADY_EXISTS"));
  const std::string other =
      Json(with({"--seed=22", "--if_match=" + id.substr(0, 12)}))["id"];
  EXPECT_NE(other, id);
  EXPECT_THAT(Qgemm(with({"--seed=23", "--if_match=" + id})).err,
              HasSubstr("FAILED_PRECONDITION"));
  EXPECT_THAT(Qgemm({"unload", "mine", "--if_match=" + id}).err,
              HasSubstr("FAILED_PRECONDITION"));
  EXPECT_EQ(Json({"describe", "mine"})["id"], other);
  EXPECT_EQ(Json({"unload", "mine", "--if_match=" + other})["freed"], true);
}

TEST_F(CliTest, IdsAreAcceptedAsListShowsThem) {
  const std::string id =
      Json({"load", "--random=32x6", "--format=int4", "--seed=5"})["id"];
  const std::string shown = id.substr(0, 12);
  EXPECT_THAT(Qgemm({"list"}).out, HasSubstr(shown));
  EXPECT_EQ(Json({"describe", shown})["id"], id);
  EXPECT_EQ(Json({"gemm", shown})["weights"], id);
  const auto unloaded = Json({"unload", shown});
  EXPECT_EQ(unloaded["weights"], id);
  EXPECT_EQ(unloaded["freed"], true);
  EXPECT_THAT(Qgemm({"describe", shown}).err, HasSubstr("NOT_FOUND"));
}

// The product of a program is that of a Gemm, bit by bit.
TEST_F(CliTest, ProgramsAreLoadedRunAndUnloaded) {
  const std::string layer = Json(
      {"load", "--random=32x6", "--format=kbit4", "--name=program/w"})["id"];
  const std::string text = Write("program.txtpb", R"(
    revision: 1
    value_type: NUMBER_TYPE_FP32
    inputs { name: "x" width: 32 }
    constants { name: "scale" }
    ops { gemm { x: 0 weights: "program/w" } }
    ops { mul { x: 2 y: 1 } }
    ops { top_k { x: 3 k: 2 } }
    outputs: [ 2, 4, 5 ])");
  std::string scale, x;
  for (int i = 0; i < 6; ++i) scale += Raw(1.5f);
  for (int i = 0; i < 3 * 32; ++i) x += Raw(0.25f * static_cast<float>(i));
  const std::vector<std::string> load = {
      "program", "load", text, "--name=program/p",
      "--constant=scale=" + Write("scale.npy", NpyHeader("<f4", 1, 6) + scale)};
  const auto loaded = Json(load);
  EXPECT_EQ(loaded["weights"], nlohmann::json::array({layer}));
  EXPECT_EQ(Json(load)["deduplicated"], true);
  EXPECT_EQ(Json({"program", "describe", "program/p"})["id"], loaded["id"]);
  const std::string x_path = Write("px.npy", NpyHeader("<f4", 3, 32) + x);
  const std::string out = testing::TempDir() + "/program_";
  Json({"gemm", "program/w", "--a=" + x_path, "--dtype=fp32",
        "--out=" + out + "gemm.npy"});
  const auto run = Json(
      {"program", "run", "program/p", "--inputs=" + x_path,
       "--outputs=" + out + "c.npy," + out + "best.npy," + out + "ids.npy"});
  EXPECT_EQ(run["program"], loaded["id"]);
  EXPECT_EQ(Read(out + "c.npy"), Read(out + "gemm.npy"));
  EXPECT_EQ(Read(out + "ids.npy").size(), 128u + 3 * 2 * 4);
  EXPECT_EQ(Json({"program", "unload", "program/p"})["freed"], true);
  EXPECT_THAT(Qgemm({"program", "run", "program/p"}).err,
              HasSubstr("NOT_FOUND"));
  EXPECT_THAT(
      Qgemm({"program", "load", Write("wrong.txtpb", "revision: 1")}).err,
      HasSubstr("program: no inputs"));
}

TEST_F(CliTest, InfoNamesTheFormats) {
  EXPECT_THAT(Qgemm({"info"}).out, HasSubstr("kbit4"));
  EXPECT_EQ(Json({"info"})["formats"].size(), 8u);
  EXPECT_EQ(Json({"info"})["program_revision"], 1);
  EXPECT_GT(Json({"info"})["process_cpu_seconds"], 0.0);
}

TEST_F(CliTest, BadFilesFailWithTheirReason) {
  const CommandResult result =
      Qgemm({"load", Write("bad.gguf", "GGUF" + std::string(8, '\xff'))});
  EXPECT_EQ(result.exit_code, kFailed);
  EXPECT_THAT(result.err, HasSubstr("version"));
}

constexpr char kFfn[] = R"pb(
  revision: 1
  value_type: NUMBER_TYPE_BF16
  inputs { type: NUMBER_TYPE_FP32 width: 64 }
  constants { name: "norm" }
  ops { rms_norm { x: 0 weight: 1 eps: 1e-5 } }
  ops { gemm { x: 2 weights: "verify/up" } }
  ops { act { x: 3 kind: KIND_SILU } }
  ops { gemm { x: 4 weights: "verify/down" } }
  ops {
    type: NUMBER_TYPE_FP32
    add { x: 0 y: 5 }
  }
  ops { top_k { x: 6 k: 3 } }
  outputs: [ 6, 8 ]
)pb";

TEST_F(CliTest, AProgramsAnswerIsWithinTheToleranceOfEachOp) {
  Json({"load", "--random=64x96", "--seed=3", "--format=kbit4",
        "--name=verify/up"});
  Json({"load", "--random=96x64", "--seed=4", "--format=int4",
        "--group_size=32", "--name=verify/down"});
  const std::vector<float> values(64, 0.75f);
  const std::string norm = Write(
      "norm.npy",
      NpyHeader("<f4", 1, 64) +
          std::string(reinterpret_cast<const char*>(values.data()), 4 * 64));
  Json({"program", "load", Write("ffn.txtpb", kFfn), "--name=verify/ffn",
        "--constant=norm=" + norm});
  std::vector<std::string> run = {"program",
                                  "run",
                                  "verify/ffn",
                                  "--m=5",
                                  "--verify",
                                  "--time_ops",
                                  "--group_size=32",
                                  "--constants=" + norm,
                                  "--weights=random:64x96:3,random:96x64:4"};
  const auto result = Json(run);
  EXPECT_EQ(result["op_us"].size(), 6u);
  EXPECT_EQ(result["verify"]["passed"], true);
  EXPECT_EQ(result["verify"]["rows"], 5);
  EXPECT_EQ(result["verify"]["ops"][1]["compared"], 5 * 96);
  const auto programs = Json({"program", "list"})["programs"];
  for (const auto& program : programs) {
    EXPECT_THAT(program["names"].dump(), Not(HasSubstr("qgemm-verify")));
  }
  run.back() = "--weights=random:64x96:5,random:96x64:4";
  const CommandResult other = Qgemm(run);
  EXPECT_EQ(other.exit_code, kFailed);
  EXPECT_THAT(other.err, HasSubstr("are not these"));
}

TEST_F(CliTest, ExamplesSucceed) {
  EXPECT_EQ(Qgemm({"info"}).exit_code, kDone);  // the server listens
  for (const char* example :
       {"load_and_multiply", "async_calls", "quantize_on_client", "run_program",
        "several_servers", "stream_calls"}) {
    const CommandResult result = RunProgram(
        {std::string("client/examples/") + example, server_->target()});
    EXPECT_EQ(result.exit_code, kDone) << example << ": " << result.err;
  }
}

TEST_F(CliTest, SeveralServersHaveTheSameWeights) {
  const ServerProcess other;
  const std::string both = server_->target() + "," + other.target();
  const auto qgemm = [](std::vector<std::string> arguments,
                        const std::string& servers) {
    arguments.insert(arguments.begin(), "cli/qgemm");
    arguments.push_back("--server=" + servers);
    arguments.push_back("--connect_timeout=60s");
    return RunProgram(arguments);
  };
  // Both serve before a client takes what is there.
  for (const std::string& server : {server_->target(), other.target()}) {
    ASSERT_EQ(qgemm({"info"}, server).exit_code, kDone);
  }
  const CommandResult example =
      RunProgram({"client/examples/several_servers", both});
  EXPECT_EQ(example.exit_code, kDone) << example.err;
  const CommandResult loaded =
      qgemm({"load", "--random=64x40", "--name=both"}, both);
  EXPECT_EQ(loaded.exit_code, kDone) << loaded.err;
  for (const std::string& server : {server_->target(), other.target()}) {
    const CommandResult gemm = qgemm({"gemm", "both", "--m=2"}, server);
    EXPECT_EQ(gemm.exit_code, kDone) << gemm.err;
  }
  const CommandResult unloaded = qgemm({"unload", "both"}, both);
  EXPECT_EQ(unloaded.exit_code, kDone) << unloaded.err;
  EXPECT_EQ(qgemm({"describe", "both"}, other.target()).exit_code, kFailed);
}

}  // namespace
}  // namespace qgemm
