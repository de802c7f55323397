# SPDX-License-Identifier: Apache-2.0
"""Fuzz targets: a libFuzzer binary each, and a short run among the tests."""

def fuzz_target(name, srcs, deps, smoke_inputs = 20000):
    """Declares a target that defines LLVMFuzzerTestOneInput.

    NAME_smoke_test runs some thousands of random inputs, as any test. NAME is
    the fuzzer, which tools/fuzz.sh builds with --config=fuzz.

    Args:
      name: of the fuzzer.
      srcs: its sources.
      deps: what they need.
      smoke_inputs: number of random inputs in NAME_smoke_test.
    """
    native.cc_library(
        name = name + "_target",
        testonly = True,
        srcs = srcs,
        alwayslink = True,
        deps = deps,
    )
    native.cc_test(
        name = name + "_smoke_test",
        size = "small",
        srcs = ["//tests/support:fuzz_smoke_test.cc"],
        local_defines = ["QGEMM_SMOKE_INPUTS=%d" % smoke_inputs],
        deps = [
            ":" + name + "_target",
            "//tests/support:seeds",
            "//third_party/googletest:gtest_main",
        ],
    )
    native.cc_binary(
        name = name,
        testonly = True,
        linkopts = ["-fsanitize=fuzzer"],
        tags = ["manual"],
        deps = [":" + name + "_target"],
    )
