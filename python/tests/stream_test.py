# SPDX-License-Identifier: Apache-2.0
"""Streams, and the asyncio client, against a real server."""

import asyncio
import concurrent.futures
import threading
import unittest

import numpy as np
import qgemm

from support import K, M, N, ServedTest


def relu_program():
    p = qgemm.Program("fp32")
    p.output(p.act(p.gemm(p.input(K), "layer"), "relu"))
    return p


class StreamTest(ServedTest):
    def setUp(self):
        super().setUp()
        self.client.load("layer", self.w, bias=self.bias, format="fp16")
        self.y = self.client.gemm("layer", self.x)

    def test_answers_find_their_requests(self):
        program = self.client.load_program("relu", relu_program())
        xs = [self.x[i:i + 1] * i for i in range(M)] * 40
        with self.client.stream(window=16) as stream:
            products = [stream.gemm("layer", x) for x in xs]
            runs = [stream.run(program, x) for x in xs]
        for x, product, run in zip(xs, products, runs):
            np.testing.assert_array_equal(product.result(),
                                          self.client.gemm("layer", x))
            np.testing.assert_array_equal(run.result(),
                                          np.maximum(product.result(), 0))

    def test_large_operands_go_in_fragments(self):
        self.client.load("wide", np.tile(self.w, (3, 1)))
        x = np.tile(self.x, (3000, 1))  # 3.8 MB, its product 8.6 MB
        timings, out = qgemm.Timings(), np.empty((len(x), 3 * N), np.float32)
        with self.client.stream() as stream:
            small = stream.gemm("layer", self.x)
            large = stream.gemm("wide", x, out=out, timings=timings)
        self.assertIs(large.result(), out)
        np.testing.assert_array_equal(out, self.client.gemm("wide", x))
        np.testing.assert_array_equal(small.result(), self.y)
        self.assertGreater(timings.kernel_ns, 0)

    def test_one_request_fails_alone(self):
        with self.client.stream() as stream:
            bad = stream.gemm("nobody", self.x)
            unfit = stream.gemm("layer", self.x,
                                out=np.empty((M, N - 1), np.float32))
            good = stream.gemm("layer", self.x)
        with self.assertRaises(qgemm.NotFound):
            bad.result()
        with self.assertRaisesRegex(ValueError, "out is"):
            unfit.result()
        np.testing.assert_array_equal(good.result(), self.y)

    def test_an_out_that_is_no_array_fails_its_request_alone(self):
        program = self.client.load_program("relu", relu_program())
        with self.client.stream() as stream:
            good = stream.gemm("layer", self.x)
            bad = [stream.gemm("layer", self.x, out=[0] * 4, dtype="fp32"),
                   stream.run(program, self.x, outs=[[0] * 4]),
                   stream.gemm("layer", self.x, timings=object())]
            later = stream.gemm("layer", self.x)
        for future in bad:
            self.assertIsInstance(future.exception(), (TypeError, AttributeError))
        for future in (good, later):
            np.testing.assert_array_equal(future.result(), self.y)

    def test_callbacks_send_requests_though_the_window_is_full(self):
        stream = self.client.stream(window=1)
        last = concurrent.futures.Future()

        def send_next(done, left=20):
            if left == 0:
                last.set_result(done.result())
                return
            stream.gemm("layer", self.x).add_done_callback(
                lambda future: send_next(future, left - 1))

        large = np.tile(self.x, (3000, 1))  # its answer comes after the callback
        stream.gemm("layer", large).add_done_callback(send_next)
        other = threading.Thread(daemon=True, target=lambda: [
            stream.gemm("layer", self.x).result(20) for _ in range(20)])
        other.start()
        np.testing.assert_array_equal(last.result(20), self.y)
        other.join(20)
        self.assertFalse(other.is_alive())
        stream.close()

    def test_a_window_has_room(self):
        with self.assertRaisesRegex(ValueError, "window = 0"):
            self.client.stream(window=0)

    def test_a_closed_stream_takes_nothing(self):
        with self.client.stream() as stream:
            pass
        with self.assertRaisesRegex((ValueError, qgemm.Error), "ended|closed"):
            stream.gemm("layer", self.x)

    def test_a_stream_that_breaks_fails_all(self):
        server = self.server
        with qgemm.serve("--backend=cpu") as other, other.connect() as client:
            client.load("layer", self.w)
            with client.stream() as stream:
                stream.gemm("layer", self.x).result()
                other.stop()
                with self.assertRaises(qgemm.Error):
                    stream.gemm("layer", self.x).result()
        self.assertIs(self.server, server)

    def test_an_exception_leaves_at_once(self):
        with self.assertRaises(KeyError):
            with self.client.stream() as stream:
                future = stream.gemm("layer", self.x)
                raise KeyError
        self.assertTrue(future.done())


class AioTest(ServedTest):
    def test_the_same_answers(self):
        async def work():
            async with await qgemm.aio.connect(self.server.address) as client:
                told = []
                loaded = await client.load("layer", self.w, bias=self.bias,
                                           format="kbit4",
                                           progress=lambda *b: told.append(b))
                self.assertEqual(told[-1][0], told[-1][1])
                y = await client.gemm("layer", self.x)
                many = await client.gemm(["layer", loaded.weights.id], self.x)
                program = await client.load_program("relu", relu_program())
                run = await client.run("relu", self.x)
                with self.assertRaises(qgemm.NotFound):
                    await client.gemm("nobody", self.x)
                self.assertEqual((await client.info()).backend, "cpu")
                self.assertEqual((await client.describe("layer")).n, N)
                self.assertEqual(len(await client.weights()), 1)
                self.assertEqual(len(await client.programs()), 1)
                self.assertTrue(await client.unload_program(program.id))
                return y, many, run

        y, many, run = asyncio.run(work())
        expected = self.client.gemm("layer", self.x)
        for each in (y, *many):
            np.testing.assert_array_equal(each, expected)
        np.testing.assert_array_equal(run, np.maximum(expected, 0))
        self.assertTrue(self.client.unload("layer"))

    def test_streams(self):
        self.client.load("layer", self.w)
        large = np.tile(self.x, (3000, 1))

        async def work():
            async with await qgemm.aio.connect(self.server.address) as client:
                program = await client.load_program("relu", relu_program())
                async with client.stream(window=8) as stream:
                    answers = await asyncio.gather(
                        stream.gemm("layer", large), stream.run(program, self.x),
                        *(stream.gemm("layer", self.x) for _ in range(100)))
                    with self.assertRaises(qgemm.NotFound):
                        await stream.gemm("nobody", self.x)
                    with self.assertRaisesRegex(TypeError, "out is"):
                        await stream.gemm("layer", self.x, out=[0], dtype="fp32")
                    await stream.gemm("layer", self.x)
                return answers

        big, run, *small = asyncio.run(work())
        expected = self.client.gemm("layer", self.x)
        np.testing.assert_array_equal(big, self.client.gemm("layer", large))
        np.testing.assert_array_equal(run, np.maximum(expected, 0))
        for y in small:
            np.testing.assert_array_equal(y, expected)

    def test_what_progress_raises_ends_an_upload(self):
        def give_up(sent, total):
            raise KeyError("enough")

        async def work():
            async with await qgemm.aio.connect(self.server.address) as client:
                await client.load("never", self.w * 3, progress=give_up)

        with self.assertRaisesRegex(KeyError, "enough"):
            asyncio.run(work())

    def test_nobody_there(self):
        with self.assertRaises(qgemm.Unavailable):
            asyncio.run(qgemm.aio.connect("unix:/nobody/there", connect_timeout=0.1))


if __name__ == "__main__":
    unittest.main()
