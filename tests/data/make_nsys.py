#!/usr/bin/env python3
"""Writes what `nsys export --type sqlite` writes of a program that launches one kernel: make_nsys.py report.sqlite"""

import sqlite3
import sys

PID = 4711 << 24
db = sqlite3.connect(sys.argv[1])
db.executescript(f"""
    CREATE TABLE StringIds (id INTEGER, value TEXT);
    CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, end INT, deviceId INT, contextId INT, streamId INT, correlationId INT,
        globalPid INT, demangledName INT, shortName INT, registersPerThread INT, gridX INT, gridY INT, gridZ INT, blockX INT,
        blockY INT, blockZ INT, staticSharedMemory INT, dynamicSharedMemory INT);
    CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INT, end INT, globalTid INT, correlationId INT, nameId INT);
    CREATE TABLE TARGET_INFO_GPU (id INT, name TEXT, smCount INT, cuDevice INT);
    INSERT INTO StringIds VALUES (1, 'gemm'), (2, 'cudaLaunchKernel_v7000');
    INSERT INTO TARGET_INFO_GPU VALUES (0, 'NVIDIA H200', 132, 0);
    INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (1000, 3000, {PID + 4711}, 1, 2);
    INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (9000, 59000, 0, 1, 7, 1, {PID}, 1, 1, 96, 264, 1, 1, 128, 1, 1, 1024, 2048);
""")
db.commit()
